// Names of files in a server's data folder. The module imports nothing: the CLI reads it without loading the server.

/** The SQLite database. */
export const SQLITE_FILE = "glovebox.sqlite";
