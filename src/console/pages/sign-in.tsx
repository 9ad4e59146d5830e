// The page before all others: sign in with an API key.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button, Copyable, TextField } from "../parts/controls.tsx";
import { signIn } from "../state/session.ts";

export function SignIn(): JSX.Element {
  const [key, setKey] = useState("");
  const submit = async (): Promise<void> => await signIn(key.trim());
  return (
    <main class="sign-in">
      <form class="card stack" onSubmit={(event) => event.preventDefault()}>
        <h1>Glovebox</h1>
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
          <p>Whoever has an admin key can create another one:</p>
          <Copyable
            text={`curl -X POST ${location.origin}/v1/keys -H "authorization: Bearer $KEY" -H "content-type: application/json" -d '{"name":"console","scopes":["tenants:read","calls:read","tools:read","usage:read"]}'`}
          />
        </details>
      </form>
    </main>
  );
}
