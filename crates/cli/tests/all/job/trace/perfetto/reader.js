// Opens a trace with Perfetto's own trace processor and answers SQL queries about it:
//   node reader.js FOLDER TRACE SQL...    prints a JSON array: for each query an array of rows
// FOLDER holds Perfetto's web viewer. Its worker, which reads the file in a browser, is run here outside of one, so
// that what opens the file is what ui.perfetto.dev opens it with. Messages are those of its trace_processor.proto.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const METHOD = { append: 1, finalize: 2, query: 3 };
const FIELD = { seq: 1, request: 2, fatal: 5, data: 101, query: 103, appended: 201, answer: 203, finalized: 212 };
const CHUNK = 16 << 20; // the worker takes up to 32 MiB at once

// ---- protocol buffers ----

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, data) => Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);

function takeVarint(buffer, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = buffer[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [BigInt.asIntN(64, value), at];
  }
}

/** Calls visit(field, value) for each field: a BigInt, or a Buffer. */
function each(buffer, visit) {
  for (let at = 0, tag, value; at < buffer.length; ) {
    [tag, at] = takeVarint(buffer, at);
    const wire = Number(tag & 7n);
    if (wire === 0) {
      [value, at] = takeVarint(buffer, at);
    } else {
      let length = wire === 1 ? 8n : 4n;
      if (wire === 2) [length, at] = takeVarint(buffer, at);
      value = buffer.subarray(at, (at += Number(length)));
    }
    visit(Number(tag >> 3n), value);
  }
}

/** Adds a batch of a QueryResult to the cells: their kinds tell from which list each is. */
function addCells(batch, cells) {
  const lists = { kinds: [], integers: [], floats: [], strings: [] };
  const packed = (data, list) => {
    for (let at = 0, value; at < data.length; list.push(value)) [value, at] = takeVarint(data, at);
  };
  each(batch, (field, value) => {
    if (field === 1) packed(value, lists.kinds);
    if (field === 2) packed(value, lists.integers);
    if (field === 3) for (let at = 0; at < value.length; at += 8) lists.floats.push(value.readDoubleLE(at));
    if (field === 5) lists.strings = value.toString().split('\0');
  });
  const at = { integers: 0, floats: 0, strings: 0 };
  const next = (list) => lists[list][at[list]++];
  for (const kind of lists.kinds.map(Number)) {
    if (kind === 2) cells.push(Number(next('integers')));
    else if (kind === 3) cells.push(next('floats'));
    else if (kind === 4) cells.push(next('strings'));
    else if (kind === 1) cells.push(null);
    else throw new Error(`a cell of kind ${kind}`);
  }
}

// ---- the worker ----

/** Starts it; the function returned sends a request and gives the answer's parts. */
function start(folder) {
  let receive;
  const file = (name) => fs.readFileSync(path.join(folder, path.basename(name)));
  const port = { postMessage: (data) => receive(Buffer.from(data)) };
  const scope = {
    TextDecoder, URL, performance, console: { log() {}, warn() {}, error: console.error },
    location: { href: 'file:///' }, WorkerGlobalScope: Object,
    XMLHttpRequest: class {
      open(_, name) { this.name = name; }
      send() { this.response = file(this.name); }
    },
  };
  scope.self = scope;
  const context = vm.createContext(scope);
  vm.runInContext(file('engine_bundle.js').toString(), context);
  const Bytes = vm.runInContext('Uint8Array', context);
  scope.onmessage({ data: port });
  let seq = 0;
  return (method, ...fields) => {
    const parts = [];
    receive = (stream) => each(stream, (_, message) => each(message, (field, value) => {
      if (field === FIELD.fatal) throw new Error(`the trace processor gives up: ${value}`);
      if (field === FIELD.appended || field === FIELD.finalized) each(value, (_, error) => {
        if (error.length) throw new Error(`the trace processor can't read it: ${error}`);
      });
      if (field === FIELD.answer) parts.push(value);
    }));
    const message = Buffer.concat([number(FIELD.seq, seq++), number(FIELD.request, method), ...fields]);
    port.onmessage({ data: new Bytes(bytes(1, message)) }); // answers before it returns
    return parts;
  };
}

function query(ask, sql) {
  const columns = [], cells = [], rows = [];
  for (const part of ask(METHOD.query, bytes(FIELD.query, bytes(1, Buffer.from(sql)))))
    each(part, (field, value) => {
      if (field === 1) columns.push(value.toString());
      if (field === 2 && value.length) throw new Error(`${sql}: ${value}`);
      if (field === 3) addCells(value, cells);
    });
  for (let at = 0; at < cells.length; at += columns.length)
    rows.push(Object.fromEntries(columns.map((name, column) => [name, cells[at + column]])));
  return rows;
}

function main([folder, trace, ...queries]) {
  const ask = start(folder);
  // The worker is ready when what it waits for is done: nothing but promises.
  setImmediate(() => {
    const data = fs.readFileSync(trace);
    for (let at = 0; at < data.length; at += CHUNK)
      ask(METHOD.append, bytes(FIELD.data, data.subarray(at, at + CHUNK)));
    ask(METHOD.finalize);
    console.log(JSON.stringify(queries.map((sql) => query(ask, sql))));
  });
}

main(process.argv.slice(2));
