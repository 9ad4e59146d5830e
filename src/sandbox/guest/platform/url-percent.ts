// Stands in for @exodus/bytes in the URL chunk: URLs in a guest are UTF-8 only, so 170 KB of legacy encodings stay out.

declare const TextEncoder: new () => { encode(text: string): Uint8Array };

/** URL standard, "percent-encode after encoding", for UTF-8. `extra` lists the characters beyond the C0 control set. */
export function percentEncodeAfterEncoding(_encoding: string, input: string, extra: string): string {
  let output = "";
  for (const byte of new TextEncoder().encode(input)) {
    const character = String.fromCharCode(byte);
    if (byte > 0x1f && byte < 0x7f && !extra.includes(character)) output += character;
    else output += `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return output;
}
