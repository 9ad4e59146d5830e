// The page before all others: sign in with an API key.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button, Copyable } from "../parts/controls.tsx";
import { TextField } from "../parts/fields.tsx";
import { useResource } from "../state/resource.ts";
import { address } from "../state/router.ts";
import { request, signIn } from "../state/session.ts";

const FAILURES: { readonly [why: string]: string } = {
  failed: "Signing in at the identity provider failed. Try again; the server's log says why.",
  "no-tenant": "Your account has no tenant on this server. Ask its operator.",
};

export function SignIn(): JSX.Element {
  const [key, setKey] = useState("");
  const methods = useResource("methods", () =>
    request<{ readonly oidc: boolean }>("GET", "/v1/console/sign-in-methods"),
  );
  const failure = FAILURES[address.value.query["sign-in"] ?? ""];
  const submit = async (): Promise<void> => await signIn(key.trim());
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
          <a class="button primary" href="/console/sign-in" target="_self">
            Sign in with your account
          </a>
        ) : null}
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
      </form>
    </main>
  );
}
