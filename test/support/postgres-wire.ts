/** A message of the Postgres protocol: its letter, what it says, and its bytes as they came. */
export interface WireMessage {
  letter: string;
  body: Buffer;
  bytes: Buffer;
}

/** Takes a stream of messages apart, however it comes in pieces; gives those that are whole by now. */
export function messageReader(): (chunk: Buffer) => WireMessage[] {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const messages: WireMessage[] = [];
    while (rest.length >= 5 && rest.length >= 1 + rest.readUInt32BE(1)) {
      const length = 1 + rest.readUInt32BE(1);
      const bytes = rest.subarray(0, length);
      messages.push({ letter: String.fromCharCode(bytes.readUInt8(0)), body: bytes.subarray(5), bytes });
      rest = rest.subarray(length);
    }
    return messages;
  };
}

/** A message to send; the length is put in. */
export function wireMessage(letter: string, ...parts: readonly (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(`${part}\0`) : part)));
  return Buffer.concat([Buffer.from(letter), int32(4 + body.length), body]);
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** True for the server's answer that a transaction is committed. */
export function isCommitted({ letter, body }: WireMessage): boolean {
  return letter === 'C' && body.toString() === 'COMMIT\0';
}

/** In the server's "ready for query": `I` for idle, `T` in a transaction, `E` in a failed one; null for other messages. */
export function stateIn({ letter, body }: WireMessage): string | null {
  return letter === 'Z' ? body.toString() : null;
}
