// What the modules of the guest's cryptography share: the form of an answer, and the schemas of arguments that most requests have.
import * as z from "zod";

/** Response to a synchronous request: JSON text, or bytes. */
export type CryptoAnswer = string | ArrayBuffer;

/** Returns the response to a request that has this value as its result. */
export const toAnswer = (value: unknown): string => JSON.stringify({ ok: true, value });

/** A short text of a request, such as the name of an algorithm. */
export const TextSchema = z.string().max(64);
/** Handle of an open hash, cipher or key. */
export const HandleSchema = z.int();

/** Default of bytes that a request does not have. */
export const NO_BYTES = new Uint8Array();
