// One line at the top of a page while the daemon does not answer, whatever the page asks, and however seldom.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { send } from "./api";
import { clock } from "./chart";
import { Icon } from "./icons";
import { serverNow, silent, unanswered } from "./server";

/** A page that got no answer for so long asks whether the daemon lives: some pages ask once a minute. */
const QUIET_S = 10;
const LOOK_MS = 5000;
const WAIT_MS = 6000;

/** Parts of the page that say themselves that the daemon does not answer. */
const sayers = signal(0);

/** Stands where a part of the page says that the daemon does not answer. */
export function Says(): null {
  useEffect(() => {
    sayers.value += 1;
    return () => { sayers.value -= 1; };
  }, []);
  return null;
}

export function Connection(): JSX.Element | null {
  useEffect(() => {
    const look = (): void => {
      if (!document.hidden && unanswered() > QUIET_S) void send("GET", "/livez", { signal: AbortSignal.timeout(WAIT_MS) }).catch(() => undefined);
    };
    const timer = window.setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  if (!silent.value || sayers.value) return null;
  return <p class="problem" role="alert"><Icon of="problem" />The daemon does not answer. What is shown is from {clock(serverNow() / 1000 - unanswered())} or before. The page asks again by itself.</p>;
}
