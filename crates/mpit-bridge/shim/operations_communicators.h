/*
 * Making and freeing communicators, mostly calls that wait for other members: their part of the table in operations.h, which
 * explains it.
 */
#ifndef THROUGHLINE_OPERATIONS_COMMUNICATORS_H
#define THROUGHLINE_OPERATIONS_COMMUNICATORS_H

#define TL_COMM_DUP(P, _) P(comm, comm) _() P(out, made)
#define TL_COMM_CREATE(P, _) P(comm, comm) _() P(handle, group) _() P(out, made)
#define TL_COMM_SPLIT(P, _) P(comm, comm) _() P(handle, color) _() P(handle, key) _() P(out, made)
#define TL_COMM_SPLIT_TYPE(P, _) \
    P(comm, comm) _() P(handle, split_type) _() P(handle, key) _() P(handle, info) _() P(out, made)
#define TL_CART_CREATE(P, _) \
    P(comm, comm) _() P(handle, dimensions) _() P(handle, sizes) _() P(handle, periods) _() P(handle, reorder) _() P(out, made)
#define TL_DIST_GRAPH_CREATE(P, _) \
    P(comm, comm) _() P(handle, number) _() P(handle, sources) _() P(handle, degrees) _() P(handle, destinations) _() \
    P(handle, weights) _() P(handle, info) _() P(handle, reorder) _() P(out, made)
#define TL_DIST_GRAPH_ADJACENT(P, _) \
    P(comm, comm) _() P(handle, indegree) _() P(handle, sources) _() P(handle, source_weights) _() P(handle, outdegree) _() \
    P(handle, destinations) _() P(handle, weights) _() P(handle, info) _() P(handle, reorder) _() P(out, made)
#define TL_INTERCOMM_CREATE(P, _) \
    P(comm, comm) _() P(handle, leader) _() P(handle, peer_comm) _() P(handle, remote_leader) _() P(handle, of_tag) _() P(out, made)
#define TL_COMM_JOIN(P, _) P(handle, descriptor) _() P(out, made)
#define TL_COMM_SPAWN(P, _) \
    P(text, command) _() P(text, arguments) _() P(handle, processes) _() P(handle, info) _() P(handle, spawning) _() P(comm, comm) _() \
    P(out, made) _() P(handle, errors)
#define TL_COMM_SPAWN_MULTIPLE(P, _) \
    P(handle, commands_count) _() P(text, commands) _() P(text, arguments) _() P(handle, processes) _() P(handle, infos) _() \
    P(handle, spawning) _() P(comm, comm) _() P(out, made) _() P(handle, errors)
#define TL_COMM_CONNECT(P, _) P(text, port) _() P(handle, info) _() P(handle, leader) _() P(comm, comm) _() P(out, made)
#define TL_COMM_FROM_GROUP(P, _) P(handle, group) _() P(text, name) _() P(handle, info) _() P(handle, handler) _() P(out, made)
#define TL_INTERCOMM_FROM_GROUPS(P, _) \
    P(handle, group) _() P(handle, leader) _() P(handle, remote_group) _() P(handle, remote_leader) _() P(text, name) _() \
    P(handle, info) _() P(handle, handler) _() P(out, made)
#define TL_COMM_FREE(P, _) P(comm, comm)

#define TL_NOTE_MADE tl_note_made(call, comm, made)

#define TL_COMMUNICATORS_PLAIN(X) \
    X(182, Comm_dup, comm_dup, TL_COMM_DUP, TL_NOTE_MADE) \
    X(183, Comm_dup_with_info, comm_dup_with_info, TL_COMM_CREATE, TL_NOTE_MADE) \
    X(184, Comm_create, comm_create, TL_COMM_CREATE, TL_NOTE_MADE) \
    X(185, Comm_create_group, comm_create_group, TL_COMM_SPLIT, TL_NOTE_MADE) \
    X(186, Comm_split, comm_split, TL_COMM_SPLIT, TL_NOTE_MADE) \
    X(187, Comm_split_type, comm_split_type, TL_COMM_SPLIT_TYPE, TL_NOTE_MADE) \
    X(188, Cart_create, cart_create, TL_CART_CREATE, TL_NOTE_MADE) \
    X(189, Cart_sub, cart_sub, TL_COMM_CREATE, TL_NOTE_MADE) \
    X(190, Graph_create, graph_create, TL_CART_CREATE, TL_NOTE_MADE) \
    X(191, Dist_graph_create, dist_graph_create, TL_DIST_GRAPH_CREATE, TL_NOTE_MADE) \
    X(192, Dist_graph_create_adjacent, dist_graph_create_adjacent, TL_DIST_GRAPH_ADJACENT, TL_NOTE_MADE) \
    X(193, Intercomm_create, intercomm_create, TL_INTERCOMM_CREATE, TL_NOTE_MADE) \
    X(194, Intercomm_merge, intercomm_merge, TL_COMM_CREATE, TL_NOTE_MADE) \
    X(195, Comm_join, comm_join, TL_COMM_JOIN, TL_NOTE_TIME)

/* Their Fortran forms have the hidden lengths of texts. */
#define TL_COMMUNICATORS_TEXT(X) \
    X(196, Comm_spawn, comm_spawn, TL_COMM_SPAWN, TL_NOTE_TIME) \
    X(197, Comm_spawn_multiple, comm_spawn_multiple, TL_COMM_SPAWN_MULTIPLE, TL_NOTE_TIME) \
    X(198, Comm_accept, comm_accept, TL_COMM_CONNECT, TL_NOTE_TIME) \
    X(199, Comm_connect, comm_connect, TL_COMM_CONNECT, TL_NOTE_TIME)
#define TL_COMMUNICATORS_TEXT_4(X) \
    X(200, Comm_create_from_group, comm_create_from_group, TL_COMM_FROM_GROUP, TL_NOTE_TIME) \
    X(201, Intercomm_create_from_groups, intercomm_create_from_groups, TL_INTERCOMM_FROM_GROUPS, TL_NOTE_TIME)

/* What is freed may be used meanwhile, by callbacks of its attributes (comms.c). */
#define TL_COMMUNICATORS_FREED(X) \
    X(202, Comm_free, comm_free, TL_COMM_FREE, ) \
    X(203, Comm_disconnect, comm_disconnect, TL_COMM_FREE, )

#endif
