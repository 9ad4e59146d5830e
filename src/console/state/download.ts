// Saves a response of the API as a file.
import { client } from "./session.ts";

/** @param path of the API @param name of the file */
export async function download(path: string, name: string): Promise<void> {
  const response = await client.open(path);
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
