// The differences of two texts, line by line.

export interface Line { kind: "same" | "removed" | "added"; text: string }

/** Cells of the table of common lines; larger texts are shown as removed and added as a whole. */
const CELLS_MOST = 4_000_000;

/** Returns the lines of both texts in order, with the fewest lines removed and added. */
export function difference(before: string, after: string): Line[] {
  const old = before.split("\n");
  const now = after.split("\n");
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  const same = (lines: string[]): Line[] => lines.map((text) => ({ kind: "same", text }));
  return [...same(old.slice(0, head)), ...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail)), ...same(old.slice(old.length - tail))];
}

function middle(old: string[], now: string[]): Line[] {
  const removed = (text: string): Line => ({ kind: "removed", text });
  const added = (text: string): Line => ({ kind: "added", text });
  const width = now.length + 1;
  if (!old.length || !now.length || (old.length + 1) * width > CELLS_MOST) return [...old.map(removed), ...now.map(added)];
  const common = new Uint32Array((old.length + 1) * width);      // common lines from (i, j) on
  const at = (i: number, j: number): number => common[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    const left = old[i];
    const right = now[j];
    if (left !== undefined && left === right) {
      lines.push({ kind: "same", text: left });
      i += 1;
      j += 1;
    } else if (left !== undefined && (right === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(removed(left));
      i += 1;
    } else {
      lines.push(added(right ?? ""));
      j += 1;
    }
  }
  return lines;
}

/** Returns the lines with at most `around` unchanged ones beside each change; a number stands for so many left out. */
export function folded(lines: Line[], around = 3): (Line | number)[] {
  const shown = lines.map(() => false);
  lines.forEach((line, i) => {
    if (line.kind !== "same") shown.fill(true, Math.max(0, i - around), i + around + 1);
  });
  const found: (Line | number)[] = [];
  lines.forEach((line, i) => {
    const last = found.length - 1;
    const before = found[last];
    if (shown[i]) found.push(line);
    else if (typeof before === "number") found[last] = before + 1;
    else found.push(1);
  });
  return found;
}
