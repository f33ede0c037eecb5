import { Writable } from 'node:stream';

/** A stream that keeps what is written to it. */
export function collector(): Writable & { text: () => string } {
  const chunks: Buffer[] = [];
  const writable = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      chunks.push(Buffer.from(chunk));
      done();
    },
  });
  return Object.assign(writable, { text: () => Buffer.concat(chunks).toString() });
}
