// Shim for @exodus/bytes in the URL module. URLs in a guest are UTF-8 only, so 170 KB of legacy encodings are not needed.

declare const TextEncoder: new () => { encode(text: string): Uint8Array };

/** "Percent-encode after encoding" (URL standard) for UTF-8. `extra` lists characters in addition to the C0 control set. */
export function percentEncodeAfterEncoding(_encoding: string, input: string, extra: string): string {
  let output = "";
  for (const byte of new TextEncoder().encode(input)) {
    const character = String.fromCharCode(byte);
    if (byte > 0x1f && byte < 0x7f && !extra.includes(character)) output += character;
    else output += `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return output;
}
