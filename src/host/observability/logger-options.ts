// Schema of pino's options. Pino ignores unknown keys and many values of a wrong type; this schema rejects both.
import * as z from "zod";
import { strictObject } from "../../sandbox/contract/plain-object.ts";

const text = z.string().optional();
const flag = z.boolean().optional();
const fields = z.looseObject({}).optional();
const count = z.number().optional();
const callback = z.custom((value) => typeof value === "function", "Expected a function").optional();

/** The keys of `LoggerOptions` in pino 9 and 10. Pino checks the contents of nested objects. */
export const LoggerOptionsSchema = strictObject({
  name: text,
  level: text,
  enabled: flag,
  safe: flag,
  base: z.looseObject({}).nullish(),
  transport: fields,
  serializers: fields,
  formatters: fields,
  hooks: fields,
  browser: fields,
  customLevels: fields,
  levelVal: count,
  useOnlyCustomLevels: flag,
  levelComparison: z.union([z.string(), callback]).optional(),
  timestamp: z.union([z.boolean(), callback]).optional(),
  redact: z.union([z.array(z.string()), z.looseObject({})], "Expected a list of paths, or an object").optional(),
  mixin: callback,
  mixinMergeStrategy: callback,
  onChild: callback,
  messageKey: text,
  errorKey: text,
  nestedKey: text.nullable(),
  msgPrefix: text,
  depthLimit: count,
  edgeLimit: count,
  crlf: flag,
});
