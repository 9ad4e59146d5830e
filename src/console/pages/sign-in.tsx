// The page before all others: sign in with an API key, or read why that is not possible here.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button, Copyable } from "../parts/controls.tsx";
import { TextField } from "../parts/forms/fields.tsx";
import { useResource } from "../state/resource.ts";
import { address, keepAddress } from "../state/router.ts";
import { loadMe, request, signIn } from "../state/session.ts";
import { toTunnel } from "../state/tunnel.ts";

const FAILURES: { readonly [why: string]: string } = {
  failed: "Signing in at the identity provider failed. Try again; the server's log says why.",
  "no-tenant": "Your account has no tenant on this server. Ask its operator.",
};

export function SignInPage(): JSX.Element {
  const methods = useResource("methods", () =>
    request<{ readonly oidc: boolean }>("GET", "/v1/console/sign-in-methods"),
  );
  // Another tab may have signed in: this one goes on where it was.
  useEffect(() => {
    const look = (): void => {
      if (document.visibilityState !== "visible") return;
      // Without a session, this page stays as it is.
      loadMe().catch(() => {});
    };
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  const failure = FAILURES[address.value.query["sign-in"] ?? ""];
  return (
    <main class="sign-in">
      <form class="card stack" onSubmit={(event) => event.preventDefault()}>
        <h1>Glovebox</h1>
        {failure === undefined ? null : (
          <div class="error-box" role="alert">
            {failure}
          </div>
        )}
        {methods.value?.oidc === true ? (
          <a class="button primary" href="/console/sign-in" target="_self" onClick={keepAddress}>
            Sign in with your account
          </a>
        ) : null}
        {globalThis.isSecureContext ? <KeySignIn /> : <NotEncrypted />}
      </form>
    </main>
  );
}

function KeySignIn(): JSX.Element {
  const [key, setKey] = useState("");
  const submit = async (): Promise<void> => await signIn(key.trim());
  return (
    <>
      <p>Sign in with an API key. The server printed an admin key when it first started.</p>
      <TextField
        label="API key"
        value={key}
        onInput={setKey}
        type="password"
        placeholder="gbx_…"
        isRequired
        autocomplete="current-password"
      />
      <Button kind="primary" type="submit" disabled={key.trim() === ""} onClick={submit}>
        Sign in
      </Button>
      <details>
        <summary>There is no key at hand</summary>
        <p>An administrator can create another key:</p>
        <Copyable
          text={`curl -X POST ${location.origin}/v1/keys -H "authorization: Bearer $KEY" -H "content-type: application/json" -d '{"name":"console","scopes":["tenants:read","calls:read","tools:read","usage:read"]}'`}
        />
      </details>
    </>
  );
}

/** Replaces the form where the browser would not keep the session's cookie: a key that is sent from here could be read on its way, for nothing. */
function NotEncrypted(): JSX.Element {
  const { tunnel, url } = toTunnel(location);
  return (
    <>
      <div class="error-box" role="alert">
        <strong>This connection is not encrypted.</strong> The browser keeps no session for {location.origin}, and
        others on the network could read your key. So you cannot sign in here.
      </div>
      <p>Open a tunnel to the server, on your own machine:</p>
      <Copyable text={tunnel} />
      <p>
        Then open <a href={url}>{url}</a>.
      </p>
      <p>
        For several users, put a reverse proxy with HTTPS in front of the server, and name its host with{" "}
        <code>--allow-host</code>.
      </p>
    </>
  );
}
