//! What `help` says: every command. Text only.

/// What `help` says.
pub const HELP: &str = "\
Times are numbers with ns, us, ms or s; rates are bytes per second, with k, M or G; shares are from 0 to 1. A node
is named by id, GUID or description, in quotes where that has blanks. NODES is `all`, `hosts`, `switches`, a node,
or a pattern with * on ids and descriptions.

MADs
  latency TIME [even TIME|exponential TIME]   round trip without service; spread beyond it
  service TIME [NODES]        time per MAD of a node, which works on one after the other
  queue NUMBER                MADs that may wait at a node; more are dropped
  loss SHARE                  exchanges that are lost
  duplicate SHARE             replies that come twice
  late SHARE TIME             replies that come late by so much
  busy SHARE                  replies that only say `busy`
Nodes
  dead NODES, alive NODES     agents fall silent or answer again; switches forward all the same
  dead SHARE NODES            so many of them, chosen by the scenario's seed
  pma-dead NODES              only performance agents fall silent
  remove NODE, restore NODE   all cables out, or in again
  rename NODE TEXT            another NodeDescription
  mkey KEY PROTECT [NODES]    M_Key and its protect bits (2 and 3: Gets without the key get no answer)
  adaptive NODES on|off|unknown   what switches answer to NVIDIA's attribute for adaptive routing; unknown: they do not
                              have it, as at first. Traffic takes the tables' way all the same
  pma NODES WORD...           extended, without-casts, classic, errors64, wait, no-wait, qp1, fec, details, no-details,
                              flow, no-flow, levels, no-levels, no-info
  redirect NODE TO announced|refused|off   TO answers for NODE's performance agent
Links
  link NODE PORT down|up      the link trains no more, or again
  cable NODE PORT NODE PORT   plugs a cable in; what was in either socket is out
  uncable NODE PORT
  width NODE PORT 4xEDR       width and speed of a link, at both ends
  endless NODE PORT           a switch of 254 ports behind it, and behind each of those another one
  claim NODE PORT OTHER       an adapter behind it that shows OTHER's GUID
  honest                      nothing of that any more
Subnet
  lid NODE PORT LID           another LID
  forward NODE LID PORT       a switch's entry for a LID, until the manager acts again (`sweep off` before)
  manager NODE [PORT] [PRIORITY]   the subnet manager moves there; `manager none`: it is gone
  prefix PREFIX               another subnet prefix, as 0xfe80000000000001
  sweep auto|off|now          whether the manager acts on each change at once
  group MGID MLID [NODE...]   a multicast group; without nodes, every host
Counters
  counter NODE PORT NAME VALUE|+EVENTS|EVENTS/s   names as perfquery writes them
  clear NODE PORT|all         back to 0, as if somebody else had cleared them
  levels SL=SHARE...          how traffic is divided among service levels
  traffic off                 none; the others add to what there is
  traffic pair NODE NODE RATE | all-to-all RATE | ring RATE | incast NODE RATE
  clock freeze|run|advance TIME   the time that counters see
  trap 128|144|145 NODE       as if the node had sent it to the manager
  sm-key KEY                  what the administrator takes as trust (1 at first); another one gets no answer
  stats, nodes, groups, help
";
