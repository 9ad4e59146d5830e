// How many of some slots are busy, as a bar and in words.
import type { JSX } from "preact";
import { formatNumber, formatPercent } from "../state/format.ts";

const HIGH = 0.75;

interface LoadBarProps {
  readonly busy: number;
  readonly slots: number;
}

export function LoadBar({ busy, slots }: LoadBarProps): JSX.Element {
  const share = slots === 0 ? 0 : Math.min(1, busy / slots);
  const tone = share >= 1 ? "bad" : share >= HIGH ? "warn" : "execute";
  return (
    <div class="load">
      <span class="share-track" aria-hidden="true">
        <i class={`bar ${tone}`} style={{ width: `${share * 100}%` }} />
      </span>
      <span>
        {formatNumber(busy)} of {formatNumber(slots)} slots <span class="faint">{formatPercent(share)}</span>
      </span>
    </div>
  );
}
