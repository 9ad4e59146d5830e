// Wrong names for a tool's schema fields, mostly from other frameworks. Glovebox ignores such a field, so the tool would silently run
// without validation; the host uses this table to report it.

/** Maps a wrong name in lower case to the correct one. */
export const MISNAMED_SCHEMAS = {
  // A guest can add properties to Object.prototype; a lookup must not find them.
  __proto__: null,
  inputschema: "inputSchema",
  input_schema: "inputSchema",
  inputsschema: "inputSchema",
  inputs_schema: "inputSchema",
  inputjsonschema: "inputSchema",
  input_json_schema: "inputSchema",
  input: "inputSchema",
  inputs: "inputSchema",
  parameters: "inputSchema",
  parameter: "inputSchema",
  parametersschema: "inputSchema",
  parameterschema: "inputSchema",
  parameters_schema: "inputSchema",
  params: "inputSchema",
  paramsschema: "inputSchema",
  params_schema: "inputSchema",
  args: "inputSchema",
  argsschema: "inputSchema",
  args_schema: "inputSchema",
  arguments: "inputSchema",
  argumentsschema: "inputSchema",
  arguments_schema: "inputSchema",
  schema: "inputSchema",
  jsonschema: "inputSchema",
  json_schema: "inputSchema",
  outputschema: "outputSchema",
  output_schema: "outputSchema",
  outputjsonschema: "outputSchema",
  output_json_schema: "outputSchema",
  output: "outputSchema",
  outputs: "outputSchema",
  result: "outputSchema",
  resultschema: "outputSchema",
  result_schema: "outputSchema",
  returns: "outputSchema",
  returnschema: "outputSchema",
  return_schema: "outputSchema",
  responseschema: "outputSchema",
  response_schema: "outputSchema",
} as unknown as { readonly [name: string]: "inputSchema" | "outputSchema" };

/** Maximum number of wrong names that one definition reports. */
export const MAX_MISNAMED = 8;
