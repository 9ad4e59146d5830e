// Parses the announcements of executors: the message, and the part with the languages of an executor.
import { type Announcement, AnnouncementSchema } from "../protocol/executor-messages.ts";
import { type Languages, LanguagesSchema, MAX_LANGUAGES_BYTES } from "../protocol/message-fields.ts";
import { decodeFrame } from "../protocol/wire.ts";

/** What an executor has announced. */
export interface Announced extends Announcement {
  /** Its pool: the subject's. */
  readonly pool: string;
  /** Hash of its Python runtime; undefined if it does not run Python. */
  readonly python: string | undefined;
  readonly isPythonReady: boolean;
  /** Whether it keeps the isolates of sessions. */
  readonly hasSessions: boolean;
  /** Whether it notices when a message about a call is missing. */
  readonly countsMessages: boolean;
}

/** Returns a valid announcement of an executor of a pool. Executors of other versions of the protocol are ignored: they get no calls. */
export function parseAnnouncement(data: Uint8Array, pool: string): Announced | undefined {
  try {
    const { message, parts } = decodeFrame(data);
    const { python, ...can } = parseLanguages(parts[0]);
    const { isPythonReady = false, hasSessions = false, countsMessages = false } = can;
    return { ...AnnouncementSchema.parse(message), pool, python, isPythonReady, hasSessions, countsMessages };
  } catch {
    return undefined;
  }
}

/** @throws {Error} for an invalid part */
function parseLanguages(part: Buffer | undefined): Languages {
  if (part === undefined) return {};
  if (part.byteLength > MAX_LANGUAGES_BYTES) throw new Error("The list of languages is too long");
  return LanguagesSchema.parse(JSON.parse(part.toString()));
}
