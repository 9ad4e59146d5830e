// Names and messages of the errors of system calls, as node:util gives them on Linux.
import { errno } from "../process/os-constants.ts";
import { checkNumber, outOfRange } from "../shared/node-error.ts";

/** A line for each error: its name, its number if Linux has none for it, and its message. */
const ERRORS = `
E2BIG argument list too long
EACCES permission denied
EADDRINUSE address already in use
EADDRNOTAVAIL address not available
EAFNOSUPPORT address family not supported
EAGAIN resource temporarily unavailable
EAI_ADDRFAMILY -3000 address family not supported
EAI_AGAIN -3001 temporary failure
EAI_BADFLAGS -3002 bad ai_flags value
EAI_BADHINTS -3013 invalid value for hints
EAI_CANCELED -3003 request canceled
EAI_FAIL -3004 permanent failure
EAI_FAMILY -3005 ai_family not supported
EAI_MEMORY -3006 out of memory
EAI_NODATA -3007 no address
EAI_NONAME -3008 unknown node or service
EAI_OVERFLOW -3009 argument buffer overflow
EAI_PROTOCOL -3014 resolved protocol is unknown
EAI_SERVICE -3010 service not available for socket type
EAI_SOCKTYPE -3011 socket type not supported
EALREADY connection already in progress
EBADF bad file descriptor
EBUSY resource busy or locked
ECANCELED operation canceled
ECHARSET -4080 invalid Unicode character
ECONNABORTED software caused connection abort
ECONNREFUSED connection refused
ECONNRESET connection reset by peer
EDESTADDRREQ destination address required
EEXIST file already exists
EFAULT bad address in system call argument
EFBIG file too large
EHOSTUNREACH host is unreachable
EINTR interrupted system call
EINVAL invalid argument
EIO i/o error
EISCONN socket is already connected
EISDIR illegal operation on a directory
ELOOP too many symbolic links encountered
EMFILE too many open files
EMSGSIZE message too long
ENAMETOOLONG name too long
ENETDOWN network is down
ENETUNREACH network is unreachable
ENFILE file table overflow
ENOBUFS no buffer space available
ENODEV no such device
ENOENT no such file or directory
ENOMEM not enough memory
ENONET -64 machine is not on the network
ENOPROTOOPT protocol not available
ENOSPC no space left on device
ENOSYS function not implemented
ENOTCONN socket is not connected
ENOTDIR not a directory
ENOTEMPTY directory not empty
ENOTSOCK socket operation on non-socket
ENOTSUP operation not supported on socket
EOVERFLOW value too large for defined data type
EPERM operation not permitted
EPIPE broken pipe
EPROTO protocol error
EPROTONOSUPPORT protocol not supported
EPROTOTYPE protocol wrong type for socket
ERANGE result too large
EROFS read-only file system
ESHUTDOWN -108 cannot send after transport endpoint shutdown
ESPIPE invalid seek
ESRCH no such process
ETIMEDOUT connection timed out
ETXTBSY text file is busy
EXDEV cross-device link not permitted
UNKNOWN -4094 unknown error
EOF -4095 end of file
ENXIO no such device or address
EMLINK too many links
EHOSTDOWN -112 host is down
EREMOTEIO -121 remote I/O error
ENOTTY inappropriate ioctl for device
EFTYPE -4028 inappropriate file type or format
EILSEQ illegal byte sequence
ESOCKTNOSUPPORT -94 socket type not supported
ENODATA no data available
EUNATCH -49 protocol driver not attached
ENOEXEC exec format error
`;

type SystemErrors = ReadonlyMap<number, readonly [name: string, message: string]>;

function parseErrors(): SystemErrors {
  return new Map(
    ERRORS.trim()
      .split("\n")
      .map((line) => {
        const [, name = "", number, message = ""] = /^(\w+) (?:(-\d+) )?(.*)$/.exec(line) ?? [];
        return [number === undefined ? -(errno[name] as number) : Number(number), [name, message]];
      }),
  );
}

let errors: SystemErrors | undefined;
function readErrors(): SystemErrors {
  errors ??= parseErrors();
  return errors;
}

function checkErrorNumber(value: unknown): asserts value is number {
  checkNumber(value, "err");
  if (value >= 0 || !Number.isSafeInteger(value)) throw outOfRange("err", "a negative integer", value);
}

const describeUnknown = (number: number): string => `Unknown system error ${number}`;

export function getSystemErrorName(number: unknown): string {
  checkErrorNumber(number);
  return readErrors().get(number)?.[0] ?? describeUnknown(number);
}

export function getSystemErrorMessage(number: unknown): string {
  checkErrorNumber(number);
  return readErrors().get(number)?.[1] ?? describeUnknown(number);
}

/** Returns a copy, which the tool may change. */
export function getSystemErrorMap(): Map<number, [name: string, message: string]> {
  return new Map([...readErrors()].map(([number, [name, message]]) => [number, [name, message]]));
}

interface SystemError extends Error {
  errno: number;
  code: string;
  syscall: string;
}

/** Creates the error of a failed system call. `original` follows its name in the message. */
export function errnoException(number: unknown, syscall: string, original?: string): SystemError {
  const code = getSystemErrorName(number);
  const error = new Error(original ? `${syscall} ${code} ${original}` : `${syscall} ${code}`);
  return Object.assign(error, { errno: number as number, code, syscall });
}

export function exceptionWithHostPort(
  number: unknown,
  syscall: string,
  address: string,
  port?: number,
  additional?: string,
): SystemError {
  const code = getSystemErrorName(number);
  const place = port !== undefined && port > 0 ? ` ${address}:${port}` : address ? ` ${address}` : "";
  const local = additional ? ` - Local (${additional})` : "";
  const error = new Error(`${syscall} ${code}${place}${local}`);
  return Object.assign(error, { errno: number as number, code, syscall, address, ...(port ? { port } : {}) });
}
