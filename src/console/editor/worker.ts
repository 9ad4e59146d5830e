// The worker that checks code. The page ends it if an answer takes too long: types can be written that take hours to check.

import libraries from "virtual:editor-libraries";
import ts from "typescript6";
import type { CheckResponse, EditorCheckRequest } from "./messages.ts";
import { ToolService } from "./tool-service.ts";

const service = new ToolService(ts, libraries);

function answer({ request, text, facts }: EditorCheckRequest): unknown {
  service.update(text, facts);
  switch (request.kind) {
    case "diagnostics":
      return service.diagnostics();
    case "completions":
      return service.completions(request.position, request.isExplicit);
    case "completion":
      return service.describeCompletion(request.position, request.label);
    case "describe":
      return service.describe(request.position);
  }
}

addEventListener("message", ({ data }: MessageEvent<EditorCheckRequest>) => {
  let response: CheckResponse;
  try {
    response = { id: data.id, value: answer(data) };
  } catch (thrown) {
    response = { id: data.id, error: thrown instanceof Error ? thrown.message : String(thrown) };
  }
  postMessage(response);
});
