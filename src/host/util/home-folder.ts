// The user's home folder, for what only that user may write: code caches, which are executed, and credentials.
import { homedir, userInfo } from "node:os";
import { isAbsolute } from "node:path";

/**
 * Returns an absolute path, of the user database if `HOME` is empty or relative: below the working directory, anyone who sends a project could
 * supply the files.
 * @param home value of HOME
 * @throws {Error} if the user database does not have the user
 */
export const homeFolder = (home: string = homedir()): string => (isAbsolute(home) ? home : userInfo().homedir);
