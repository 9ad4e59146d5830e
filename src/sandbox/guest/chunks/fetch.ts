// The Fetch standard for a guest: its classes, and `fetch` over the capability of that name. What may leave is the host's to say.
import { openFetchChannel } from "../fetch-channel.ts";
import { Body } from "./fetch-body.ts";
import { readDataUrl } from "./fetch-data-url.ts";
import { Exchange } from "./fetch-exchange.ts";
import { Request, type RequestState, requestState } from "./fetch-request.ts";
import { makeResponse, Response } from "./fetch-response.ts";

export { FormData } from "./fetch-form-data.ts";
export { Headers } from "./fetch-headers.ts";
export { Request, Response };

const failed = (reason: string): TypeError => new TypeError("fetch failed", { cause: new Error(reason) });

function answerDataUrl({ method, url }: RequestState): Response {
  const { type, bytes } = readDataUrl(url.href);
  const body = method === "HEAD" ? null : Body.ofParts([bytes]);
  const headers = [["Content-Type", type]] as const;
  return makeResponse({ status: 200, statusText: "OK", headers, url: url.href, redirected: false }, body);
}

async function fetchRequest(state: RequestState): Promise<Response> {
  const { followed, url, integrity } = state;
  if (followed?.aborted) {
    Promise.resolve(state.body?.take("fetch").cancel(followed.reason)).catch(() => {});
    throw followed.reason;
  }
  // Ignoring it would be worse than not having it.
  if (integrity !== "") throw failed("Integrity metadata is not supported");
  if (url.scheme === "data") {
    try {
      return answerDataUrl(state);
    } catch (cause) {
      throw new TypeError("fetch failed", { cause });
    }
  }
  if (url.scheme !== "http" && url.scheme !== "https") throw failed(`The scheme ${url.scheme} is not supported`);
  return await new Exchange(openFetchChannel(), state).run();
}

/** An exchange belongs to the call in which it begins, and ends with it. */
export async function fetch(...args: readonly [input: unknown, init?: unknown]): Promise<Response> {
  return await fetchRequest(requestState(new Request(...args)));
}
