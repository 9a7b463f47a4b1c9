import type { Message, Stored } from "./message.js";

/** Base of all errors that a server or a network causes. */
export class QueendError extends Error {
  override get name(): string { return this.constructor.name; }
}
/** The server refused a request. status: HTTP status; code: the server's word for programs, or an empty text. */
export class Refused extends QueendError {
  constructor(message: string, readonly status = 200, readonly code = "") { super(message); }
}
/** The server does not accept the token, or requires one (401). */
export class Unauthorized extends Refused {}
/** The token lacks a right (403). The text names the verb and the queue. */
export class Forbidden extends Refused {}
/** Some messages of a push were refused, the others are stored. stored: one result for each, in their order. */
export class NotStored extends Refused {
  constructor(message: string, code: string, readonly stored: Stored[]) { super(message, 200, code); }
}
/** Some acknowledgments were refused, the others count. messages: those whose acknowledgment was refused. */
export class NotSettled extends Refused {
  constructor(message: string, readonly messages: Message[]) { super(message); }
}
/** The lease of messages has ended, so that they are delivered again. */
export class LeaseLost extends NotSettled {}
/** No answer, or 408, 429, 502, 503 or 504, until the deadline. mayBeDone: an attempt may have taken effect. */
export class Unavailable extends QueendError {
  constructor(message: string, public mayBeDone: boolean, readonly retryAfterMs = 0, readonly status = 0,
              options?: ErrorOptions) { super(message, options); }
}
/** The answer is not one of queend, for example a page of a proxy. */
export class BadAnswer extends QueendError {}
/** Thrown by a handler: the message is delivered again after this time, and no failure is counted. */
export class Later extends Error {
  constructor(readonly delayMs = 0) { super(`again in ${delayMs} ms`); }
}
/** Thrown by a handler: the message becomes a dead letter with this text. */
export class Dead extends Error {}
