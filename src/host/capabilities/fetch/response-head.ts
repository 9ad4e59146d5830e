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

const RESET_CONTENT = 205;
const BODILESS = new Set([101, 204, RESET_CONTENT, 304]);
/** Returns whether a server can send a body although the response has none for the tool. */
export const canSendUnreadBody = (status: number): boolean => status === RESET_CONTENT;
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

/** Matches texts of bytes some of which are not ASCII. */
const BYTES_BEYOND_ASCII = /^[^\u0080-\uffff]*[\u0080-\u00ff][^\u0100-\uffff]*$/;

/** Replaces the values of secrets in texts of a head. Their characters are bytes, which may be those of UTF-8. */
export async function redactHeadTexts(
  texts: readonly string[],
  redactor: Redactor,
  turns: Turns,
): Promise<readonly string[]> {
  const redacted = await redactor.texts(texts, turns);
  return await Promise.all(
    redacted.map(async (text) =>
      BYTES_BEYOND_ASCII.test(text) ? (await redactor.bytes(Buffer.from(text, "latin1"))).toString("latin1") : text,
    ),
  );
}

/** Replaces the values of secrets in all texts of a head. */
export async function redactHead(head: ResponseHead, redactor: Redactor, turns: Turns): Promise<ResponseHead> {
  // A value is not found in a text of which bytes are lost.
  const isLegible = redactor.isEmpty || !head.statusText.includes("\ufffd");
  const given = [isLegible ? head.statusText : "", head.url, ...head.headers.flat()];
  const [statusText = "", url = "", ...texts] = await redactHeadTexts(given, redactor, turns);
  const headers = head.headers.map((_, index) => [texts[index * 2] ?? "", texts[index * 2 + 1] ?? ""] as const);
  return { ...head, statusText, url, headers };
}
