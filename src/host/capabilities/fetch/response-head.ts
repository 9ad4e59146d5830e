// Makes the head of a response that the tool receives: status, headers and URL, with the values of secrets redacted.
import type { Dispatcher } from "undici";
import type { Redactor } from "../../observability/redaction/call-redactor.ts";
import type { Turns } from "../../observability/redaction/stream-filter.ts";
import type { HeaderList } from "./request-headers.ts";

export interface ResponseHead {
  readonly status: number;
  readonly statusText: string;
  readonly headers: HeaderList;
  readonly url: string;
  readonly redirected: boolean;
  readonly hasBody: boolean;
}

const BODILESS = new Set([101, 204, 205, 304]);
export const hasBody = (method: string, status: number): boolean => method !== "HEAD" && !BODILESS.has(status);

/** Returns the headers of a response as pairs. Bytes are read as latin1, as the fetch standard does. */
export function toPairs(raw: Dispatcher.ResponseData["headers"]): HeaderList {
  const flat = raw as unknown as readonly (string | Buffer)[];
  const text = (index: number): string => {
    const value = flat[index] ?? "";
    return typeof value === "string" ? value : value.toString("latin1");
  };
  return Array.from({ length: flat.length / 2 }, (_, index) => [text(index * 2), text(index * 2 + 1)] as const);
}

/** Replaces the values of secrets in all texts of a head. */
export async function redactHead(head: ResponseHead, redactor: Redactor, turns: Turns): Promise<ResponseHead> {
  const given = [head.statusText, head.url, ...head.headers.flat()];
  const [statusText = "", url = "", ...texts] = await redactor.texts(given, turns);
  const headers = head.headers.map((_, index) => [texts[index * 2] ?? "", texts[index * 2 + 1] ?? ""] as const);
  return { ...head, statusText, url, headers };
}
