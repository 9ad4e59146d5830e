// A field that chooses one of a tenant's tools.
import type { JSX } from "preact";
import { collectTools } from "../../state/collect.ts";
import { useResource } from "../../state/resource.ts";
import { can } from "../../state/session.ts";
import { SelectField, TextField } from "./fields.tsx";

const MAX_TOOLS = 10_000;

interface ToolFieldProps {
  readonly tenantId: string;
  readonly value: string;
  readonly onInput: (name: string) => void;
}

/** Lists the tools, or takes a name of a key that may not list them. */
export function ToolField({ tenantId, value, onInput }: ToolFieldProps): JSX.Element {
  const tools = useResource(`tools ${tenantId}`, async () =>
    can("tools:read") ? await collectTools(tenantId, MAX_TOOLS) : undefined,
  );
  if (tools.value === undefined && !tools.isLoading)
    return <TextField label="Tool" value={value} onInput={onInput} isRequired />;
  return (
    <SelectField
      label="Tool"
      value={value}
      onInput={onInput}
      options={[["", "Choose a tool"], ...(tools.value ?? []).map(({ name }) => [name, name] as const)]}
    />
  );
}
