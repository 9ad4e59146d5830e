// Names that authors give to a tool's schemas by mistake, because other frameworks call them so. Such a field is not read, and the tool would
// run without validation and without a word about it.

/** Names in lower case, with the name that would be right. */
export const MISNAMED_SCHEMAS = {
  // A guest may put names into Object.prototype.
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

/** Names that one definition tells of. */
export const MAX_MISNAMED = 8;
