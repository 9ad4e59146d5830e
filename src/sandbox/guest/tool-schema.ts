// Types of a tool's schemas, and the types of values that they describe.
import type { StandardSchemaV1 } from "@standard-schema/spec";

/** A JSON Schema 2020-12 as a plain object. */
export type PlainJsonSchema = { readonly [keyword: string]: unknown };

/** Schema of a tool: from any Standard Schema library (zod, valibot, arktype …), or a plain JSON Schema. */
export type ToolSchema = StandardSchemaV1 | PlainJsonSchema;

type Mutable<T> = T extends readonly (infer Item)[]
  ? Mutable<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Mutable<T[Key]> }
    : T;

interface ScalarTypes {
  readonly string: string;
  readonly number: number;
  readonly integer: number;
  readonly boolean: boolean;
  readonly null: null;
}

type RequiredKeys<Schema, Properties> = Schema extends { readonly required: readonly (infer Key)[] }
  ? Extract<Key, keyof Properties>
  : never;

type ObjectOf<Schema> = Schema extends { readonly properties: infer Properties }
  ? { -readonly [Key in RequiredKeys<Schema, Properties>]: FromJsonSchema<Properties[Key]> } & {
      -readonly [Key in Exclude<keyof Properties, RequiredKeys<Schema, Properties>>]?: FromJsonSchema<Properties[Key]>;
    }
  : Record<string, unknown>;

type TypeOf<Schema, Type> = Type extends keyof ScalarTypes
  ? ScalarTypes[Type]
  : Type extends "array"
    ? Schema extends { readonly items: infer Items }
      ? FromJsonSchema<Items>[]
      : unknown[]
    : Type extends "object"
      ? ObjectOf<Schema>
      : unknown;

/** TypeScript type of a JSON Schema that is written as a literal. Parts that TypeScript cannot express are `unknown`. */
export type FromJsonSchema<Schema> = Schema extends { readonly const: infer Value }
  ? Mutable<Value>
  : Schema extends { readonly enum: readonly (infer Value)[] }
    ? Mutable<Value>
    : Schema extends { readonly anyOf: readonly (infer Branch)[] }
      ? FromJsonSchema<Branch>
      : Schema extends { readonly oneOf: readonly (infer Branch)[] }
        ? FromJsonSchema<Branch>
        : Schema extends { readonly type: readonly (infer Type)[] }
          ? TypeOf<Schema, Type>
          : Schema extends { readonly type: infer Type }
            ? TypeOf<Schema, Type>
            : unknown;

/** Type that `execute` receives: the output of the input schema, after defaults and transforms. */
export type InputOf<Schema> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<Schema>
  : Schema extends PlainJsonSchema
    ? FromJsonSchema<Schema>
    : Record<string, unknown>;

/** Type that `execute` returns: the input of the output schema, before defaults and transforms. */
export type OutputOf<Schema> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<Schema>
  : Schema extends PlainJsonSchema
    ? FromJsonSchema<Schema>
    : unknown;
