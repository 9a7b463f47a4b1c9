// A message in full, and as a command that pushes it again.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { getText, type Answer } from "../api";
import { pushCommand } from "../curl";
import { Icon } from "../icons";
import { usePoll } from "../poll";
import { member } from "../raw";
import { visibleLines } from "../text";
import { Dialog, Name, Shown } from "../ui";
import { Payload } from "./messages";

type Message = Answer<"/api/v1/messages/{partition}/{transaction_id}", "get">;

/** The command is shown as well: a browser lets no page write the clipboard over plain HTTP, except on localhost. */
export function CopyCurl({ queue, partition, traceId, payload }: { queue: string; partition: string; traceId: string | null; payload: string }): JSX.Element {
  const [told, setTold] = useState<string | null>(null);
  const command = pushCommand({ queue, partition, traceId, payload });
  return <>
    <button type="button" onClick={() => {
      if (!navigator.clipboard) setTold("The browser does not allow copying here. Select the command:");
      else void navigator.clipboard.writeText(command).then(() => setTold("Copied. The push stores a new message, with a transaction id of its own."), () => setTold("The browser does not allow copying. Select the command:"));
    }}><Icon of="copy" />Copy as curl</button>
    {told !== null && <div class="command"><p role="status">{told}</p><pre tabIndex={0} role="region" aria-label="curl command">{visibleLines(command)}</pre></div>}
  </>;
}

export function MessageDialog({ partitionId, transactionId, onClose }: { partitionId: string; transactionId: string; onClose: () => void }): JSX.Element {
  const polled = usePoll(async (signal) => {
    const raw = await getText("/api/v1/messages/{partition}/{transaction_id}", { names: { partition: partitionId, transaction_id: transactionId }, signal });
    return { message: JSON.parse(raw) as Message, payload: member(raw, "payload") ?? "null" };
  }, `${partitionId}/${transactionId}`, 0);
  return <Dialog title={<>Message <Name>{transactionId}</Name></>} onClose={onClose}>
    <Shown of={polled}>{({ message, payload }) => <Payload raw={payload} label="Payload">
      <CopyCurl queue={message.queue} partition={message.partition} traceId={message.traceId} payload={payload} /></Payload>}</Shown>
    <div class="buttons after"><button type="button" onClick={onClose}>Close</button></div>
  </Dialog>;
}
