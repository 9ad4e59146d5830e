// Checks the signature of a request to a trigger, and returns the id under which its sender repeats it.
import { createHmac, timingSafeEqual } from "node:crypto";
import type { TriggersTable } from "../database/tables/event-tables.ts";
import { toSigner } from "../webhooks/delivery-queue.ts";

const ID_PATTERN = /^[A-Za-z0-9._:-]{1,128}$/;

interface SignedRequest {
  readonly headers: Headers;
  readonly body: string;
}

/** Standard Webhooks: the signature covers id, time and body, and the time is at most five minutes away. */
function verifyStandard({ headers, body }: SignedRequest, secret: string): string | undefined {
  const id = headers.get("webhook-id") ?? "";
  try {
    toSigner(secret).verify(
      body,
      {
        "webhook-id": id,
        "webhook-timestamp": headers.get("webhook-timestamp") ?? "",
        "webhook-signature": headers.get("webhook-signature") ?? "",
      },
      { jsonParse: false },
    );
  } catch {
    return undefined;
  }
  return id;
}

/**
 * GitHub: an HMAC of the body. The id of the delivery is not signed, so someone who has seen a request could send it again with another one. The
 * signature identifies it instead.
 */
function verifyGithub({ headers, body }: SignedRequest, secret: string): string | undefined {
  const given = Buffer.from(headers.get("x-hub-signature-256") ?? "");
  const expected = Buffer.from(`sha256=${createHmac("sha256", secret).update(body).digest("hex")}`);
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
  return expected.toString().replace("=", ":");
}

const VERIFIERS = { standard_webhooks: verifyStandard, github: verifyGithub } as const;

/** Returns the id of a genuine request; undefined for every other one. */
export function verifyRequest(
  request: SignedRequest,
  verification: TriggersTable["verification"],
  secret: string,
): string | undefined {
  const id = VERIFIERS[verification](request, secret);
  return id !== undefined && ID_PATTERN.test(id) ? id : undefined;
}
