// The filters that are set, as chips: each can be removed.
import type { JSX } from "preact";
import "./tools.css";
import { Icon } from "./icons";
import { Name } from "./ui";

export interface Chip { label: string; value: string; onRemove: () => void }

export function Chips({ of }: { of: Chip[] }): JSX.Element | null {
  const set = of.filter((one) => one.value !== "");
  if (!set.length) return null;
  return <ul class="chips" aria-label="Filters">{set.map((one) => <li key={one.label}>
    <span class="quiet">{one.label}:</span><Name>{one.value}</Name>
    <button type="button" class="bare" aria-label={`Remove filter ${one.label}`} title={`Remove filter ${one.label}`} onClick={one.onRemove}><Icon of="close" /></button>
  </li>)}
  {set.length > 1 && <li><button type="button" onClick={() => { for (const one of set) one.onRemove(); }}>Remove all</button></li>}</ul>;
}
