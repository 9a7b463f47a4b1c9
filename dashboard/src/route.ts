// Where the reader is: in the fragment, which no server and no log sees. #/queues/orders?search=x
import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => { hash.value = location.hash; });

export const place = computed(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?", 2);
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
});

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A link to a place. Empty names have a mark of their own, for a path has no empty parts. */
export function to(parts: string[], query: Record<string, string | number | undefined> = {}): string {
  const wanted = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") wanted.set(name, String(value));
  const text = wanted.toString();
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${text ? `?${text}` : ""}`;
}

export function go(link: string): void {
  location.hash = link;
}

/** Another query of the same place, without an entry in the history. Nothing if the reader is leaving the place. */
export function alter(query: Record<string, string | number | undefined>): void {
  if (location.hash !== hash.value) return;
  history.replaceState(null, "", to(place.value.parts, { ...Object.fromEntries(place.value.query), ...query }));
  hash.value = location.hash;
}
