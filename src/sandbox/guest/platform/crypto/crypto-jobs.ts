// Runs long operations as jobs on the worker's threads. The worker queues a limited number of jobs. The others are queued here, in the
// guest's own memory.
import type { Failure, JobAnswer } from "../../../protocol/crypto-messages.ts";
import { MAX_JOB_BYTES, MAX_JOBS, MAX_WAITING_BYTES } from "../../../protocol/crypto-messages.ts";
import { listenForAnswers, requestFromWorker } from "../../host.ts";
import { createDomException } from "../../module-loader.ts";

export interface JobRequest {
  readonly text: string;
  readonly buffers: readonly ArrayBuffer[];
}

export interface JobResult {
  readonly response: Exclude<JobAnswer, Failure>;
  readonly buffers: readonly ArrayBuffer[];
}

interface Job extends JobRequest {
  readonly bytes: number;
  readonly resolve: (result: JobResult) => void;
  readonly reject: (error: Error) => void;
}

const waiting: Job[] = [];
const running = new Map<number, Job>();
let runningBytes = 0;
let lastId = 0;

export function toError({ name, message, code }: Failure): Error {
  let error: Error;
  if (name === "TypeError") error = new TypeError(message);
  else if (name === "RangeError") error = new RangeError(message);
  else error = createDomException(message, name);
  return code === undefined ? error : Object.assign(error, { code });
}

function finish(id: number, text: string, buffers: readonly ArrayBuffer[]): void {
  const job = running.get(id);
  if (job === undefined) return;
  running.delete(id);
  runningBytes -= job.bytes;
  const response = JSON.parse(text) as JobAnswer;
  if (response.ok) job.resolve({ response, buffers });
  else job.reject(toError(response));
  beginNext();
}

function begin(job: Job): void {
  lastId += 1;
  const [first, second, third, fourth] = job.buffers;
  const response = requestFromWorker("job", lastId, job.text, first, second, third, fourth);
  const { name, message } = JSON.parse(typeof response === "string" ? response : NO_ANSWER) as Partial<Failure>;
  if (name !== undefined && message !== undefined) {
    job.reject(toError({ ok: false, name, message }));
    return;
  }
  running.set(lastId, job);
  runningBytes += job.bytes;
}

const NO_ANSWER = JSON.stringify({ name: "OperationError", message: "The sandbox could not start this operation" });

function beginNext(): void {
  while (running.size < MAX_JOBS) {
    const next = waiting[0];
    if (next === undefined) return;
    if (running.size > 0 && runningBytes + next.bytes > MAX_WAITING_BYTES) return;
    waiting.shift();
    begin(next);
  }
}

/** Resolves with the result of the job. Rejects with the error that the worker reports. */
export function runJob({ text, buffers }: JobRequest): Promise<JobResult> {
  const bytes = buffers.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return new Promise((resolve, reject) => {
    if (bytes > MAX_JOB_BYTES) {
      reject(createDomException(`The input of one operation is limited to ${MAX_JOB_BYTES} bytes`, "OperationError"));
      return;
    }
    waiting.push({ text, buffers, bytes, resolve, reject });
    beginNext();
  });
}

listenForAnswers(finish);
