// Says what executors are and how to start them: what the fleet page shows while there are none.
import type { JSX } from "preact";
import { urlOf } from "../state/router.ts";
import { Copyable, Empty } from "./controls.tsx";

const NATS = "--nats nats://127.0.0.1:4222";
const EXECUTOR = `npx glovebox executor ${NATS} --credentials credentials/executor-1.json`;

/** @param usesExecutors whether the server is connected to NATS, so that only executors are missing */
export function FleetHelp({ usesExecutors }: { readonly usesExecutors: boolean }): JSX.Element {
  return usesExecutors ? (
    <Empty title="No executor is connected" command={EXECUTOR}>
      Calls wait for an executor, and fail with OVERLOADED before their time limit. Start one on each machine; it
      appears here within a second.
    </Empty>
  ) : (
    <Empty title="Calls run on the server's own machine">
      <div class="stack">
        <p>
          Its processes are on the page <a href={urlOf(["workers"])}>Workers</a>. When one machine is not enough,
          executors on other machines run the calls, without secrets and without the database. They are connected
          through NATS:
        </p>
        <ol class="steps">
          <li>
            Create credentials for the server and for each executor
            <Copyable text="npx glovebox executor credentials credentials executor-1" />
          </li>
          <li>
            Start NATS with the users of credentials/nats-users.conf, and the server again
            <Copyable text={`npx glovebox serve ${NATS} --nats-credentials credentials/control-plane.json`} />
          </li>
          <li>
            Start an executor on each machine
            <Copyable text={EXECUTOR} />
          </li>
        </ol>
      </div>
    </Empty>
  );
}
