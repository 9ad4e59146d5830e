// Tags of V8's serialization format, as in V8's value-serializer.cc.

/** Version that is written. Earlier ones can be read. */
export const FORMAT_VERSION = 15;
/** Views are written with a third number, their flags, since this version. */
export const FIRST_VERSION_WITH_VIEW_FLAGS = 14;

export const TAGS = {
  padding: "\0",
  objectCount: "?",
  hole: "-",
  undefined: "_",
  null: "0",
  true: "T",
  false: "F",
  int32: "I",
  uint32: "U",
  double: "N",
  bigint: "Z",
  utf8Text: "S",
  oneByteText: '"',
  twoByteText: "c",
  reference: "^",
  object: "o",
  endOfObject: "{",
  sparseArray: "a",
  endOfSparseArray: "@",
  denseArray: "A",
  endOfDenseArray: "$",
  date: "D",
  trueObject: "y",
  falseObject: "x",
  numberObject: "n",
  bigintObject: "z",
  stringObject: "s",
  regExp: "R",
  map: ";",
  endOfMap: ":",
  set: "'",
  endOfSet: ",",
  buffer: "B",
  resizableBuffer: "~",
  transferredBuffer: "t",
  view: "V",
  hostObject: "\\",
  error: "r",
} as const;

export const ERROR_TAGS = { message: "m", cause: "c", stack: "s", end: "." } as const;

/** Tag of each class of errors. `Error` has none. */
export const ERROR_CLASSES: { readonly [name: string]: string } = {
  EvalError: "E",
  RangeError: "R",
  ReferenceError: "F",
  SyntaxError: "S",
  TypeError: "T",
  URIError: "U",
};

export const REGEXP_FLAGS = [
  ["g", 1],
  ["i", 2],
  ["m", 4],
  ["y", 8],
  ["u", 16],
  ["s", 32],
  ["d", 128],
  ["v", 256],
] as const;

/** Tag and class of each kind of view. Its position is the index that Node's DefaultSerializer writes, without 10, a Buffer. */
export const VIEWS = [
  ["b", "Int8Array"],
  ["B", "Uint8Array"],
  ["C", "Uint8ClampedArray"],
  ["w", "Int16Array"],
  ["W", "Uint16Array"],
  ["d", "Int32Array"],
  ["D", "Uint32Array"],
  ["f", "Float32Array"],
  ["F", "Float64Array"],
  ["?", "DataView"],
  // Position of Node's Buffer.
  ["", ""],
  ["q", "BigInt64Array"],
  ["Q", "BigUint64Array"],
  ["h", "Float16Array"],
] as const;
export const BUFFER_INDEX = 10;
