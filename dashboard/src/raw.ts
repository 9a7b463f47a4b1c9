// JSON as text. What a producer sent is shown as it is: JSON.parse would round long numbers and lose repeated keys.

function space(text: string, at: number): number {
  while (at < text.length && " \t\r\n".includes(text.charAt(at))) at += 1;
  return at;
}

function stringEnd(text: string, at: number): number {
  for (at += 1; at < text.length; at += 1) {
    const c = text.charAt(at);
    if (c === "\\") at += 1;
    else if (c === '"') return at + 1;
  }
  return at;
}

/** The end of the value that begins at `at`. The text is whole: it came from a daemon that has checked it. */
function valueEnd(text: string, at: number): number {
  const first = text.charAt(at);
  if (first === '"') return stringEnd(text, at);
  if (first !== "{" && first !== "[") {
    while (at < text.length && !",]} \t\r\n".includes(text.charAt(at))) at += 1;
    return at;
  }
  let depth = 0;
  while (at < text.length) {
    const c = text.charAt(at);
    if (c === '"') { at = stringEnd(text, at); continue; }
    at += 1;
    if (c === "{" || c === "[") depth += 1;
    else if ((c === "}" || c === "]") && --depth === 0) return at;
  }
  return at;
}

/** The values of an array, as text. */
export function elements(text: string): string[] {
  const found: string[] = [];
  let at = space(text, space(text, 0) + 1);
  while (at < text.length && text.charAt(at) !== "]") {
    const end = valueEnd(text, at);
    found.push(text.slice(at, end));
    at = space(text, end);
    if (text.charAt(at) === ",") at = space(text, at + 1);
  }
  return found;
}

/** The value of a member of an object, as text; undefined where it has none. */
export function member(text: string, name: string): string | undefined {
  let at = space(text, space(text, 0) + 1);
  while (text.charAt(at) === '"') {
    const key = text.slice(at, stringEnd(text, at));
    at = space(text, space(text, at + key.length) + 1);
    const end = valueEnd(text, at);
    if (JSON.parse(key) === name) return text.slice(at, end);
    at = space(text, end);
    if (text.charAt(at) === ",") at = space(text, at + 1);
  }
  return undefined;
}

/** Indented by two, at most `most` characters of it; whether that is all. */
export function pretty(text: string, most = Infinity): [string, boolean] {
  const out: string[] = [];
  let size = 0;
  let depth = 0;
  const put = (piece: string): void => { out.push(piece); size += piece.length; };
  let at = space(text, 0);
  while (at < text.length) {
    if (size >= most) return [out.join("").slice(0, most), false];
    const c = text.charAt(at);
    const next = space(text, at + 1);
    if (c === '"') {
      const end = stringEnd(text, at);
      put(text.slice(at, end));
      at = space(text, end);
    } else if ((c === "{" || c === "[") && (text.charAt(next) === "}" || text.charAt(next) === "]")) {
      put(c + text.charAt(next));
      at = space(text, next + 1);
    } else if (c === "{" || c === "[") {
      depth += 1;
      put(`${c}\n${"  ".repeat(Math.min(depth, 40))}`);
      at = next;
    } else if (c === "}" || c === "]") {
      depth -= 1;
      put(`\n${"  ".repeat(Math.min(depth, 40))}${c}`);
      at = next;
    } else if (c === ",") {
      put(`,\n${"  ".repeat(Math.min(depth, 40))}`);
      at = next;
    } else if (c === ":") {
      put(": ");
      at = next;
    } else {
      const end = Math.max(at + 1, valueEnd(text, at));
      put(text.slice(at, end));
      at = space(text, end);
    }
  }
  const whole = out.join("");
  return whole.length > most ? [whole.slice(0, most), false] : [whole, true];
}
