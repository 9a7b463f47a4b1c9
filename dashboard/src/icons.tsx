// Icons of one style: lines of 1.75 on a field of 24, in the colour of the text beside them. They are decoration: the text, or the label of the button, says what they mean.
import type { JSX } from "preact";
import "./icons.css";

const SHAPES = {
  overview: "M4 4h7v9H4zM13 4h7v5h-7zM13 11h7v9h-7zM4 15h7v5H4z",
  queues: "M12 3l9 5-9 5-9-5zM3.5 12.5 12 17l8.5-4.5M3.5 17 12 21.5l8.5-4.5",
  partitions: "M4 4h16v16H4zM9.5 4v16M14.5 4v16",
  groups: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20a6.5 6.5 0 0 1 13 0M16 4.3a3.5 3.5 0 0 1 0 6.4M18 14.2a6.5 6.5 0 0 1 3.5 5.8",
  leases: "M6 3h12M6 21h12M7 3c0 5 10 6 10 18M17 3c0 5-10 6-10 18",
  messages: "M3 5h18v14H3zM3 6l9 7 9-7",
  dead: "M3 4h18v5H3zM5 9v11h14V9M9.5 12.5l5 5M14.5 12.5l-5 5",
  scheduled: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3.5 2.5",
  traces: "M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM18 21a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM8.5 5.5H15a3.25 3.25 0 0 1 0 6.5H9a3.25 3.25 0 0 0 0 6.5h6.5",
  streams: "M3 7c3-3 6 3 9 0s6 3 9 0M3 12c3-3 6 3 9 0s6 3 9 0M3 17c3-3 6 3 9 0s6 3 9 0",
  daemons: "M4 4h16v7H4zM4 13h16v7H4zM8 7.5h.01M8 16.5h.01",
  doctor: "M3 12h4l3-8 4 16 3-8h4",
  maintenance: "M14.5 7.5a4.5 4.5 0 0 1 5.7-4.3L17 6.4V8h1.6l3.2-3.2A4.5 4.5 0 0 1 16 10.3L7 19.3A2.3 2.3 0 0 1 3.7 16z",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 9.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM9 19.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
  problem: "M12 3.5 22 20.5H2zM12 10v4.5M12 17.5h.01",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  pause: "M7 5h3.5v14H7zM13.5 5H17v14h-3.5z",
  resume: "M7 4.5v15l12-7.5z",
  delete: "M4 6.5h16M9 6.5V3.5h6v3M6 6.5l1 14h10l1-14M10 10.5v6M14 10.5v6",
  retry: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4.5h4.5",
  theme: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 3v18M12 8h7.5M12 12h9M12 16h7.5",
  push: "M12 20V8M6.5 12.5 12 7l5.5 5.5M4 3.5h16",
  close: "M6 6l12 12M18 6 6 18",
  menu: "M4 6.5h16M4 12h16M4 17.5h16",
} as const;

export type IconName = keyof typeof SHAPES;

/** Returns whether there is an icon of this name: those of pages have the names of the pages. */
export function isIcon(name: string): name is IconName {
  return Object.hasOwn(SHAPES, name);
}

export function Icon({ of }: { of: IconName }): JSX.Element {
  return <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d={SHAPES[of]} /></svg>;
}
