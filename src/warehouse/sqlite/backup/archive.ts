import { createHash } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';

/** A file of an archive (POSIX ustar), which `tar` lists and unpacks. */
export interface Member {
  name: string;
  size: number;
  /** Where its bytes begin. */
  offset: number;
}

const BLOCK = 512;
const CHUNK = 1_048_576;
/** Fields of a header, by their place in it. */
const AT = { mode: 100, uid: 108, gid: 116, size: 124, mtime: 136, sum: 148, kind: 156, magic: 257 } as const;
const SUM_LENGTH = 8;
const SIZE_LENGTH = 12;
/** Larger sizes do not fit into eleven octal digits, and are written as a binary number. */
const LARGEST_OCTAL = 8 ** 11;
const IS_BINARY = 0x80;

/** Writes files one behind the other; `finish` makes them durable. */
export class ArchiveWriter {
  readonly #file: FileHandle;
  readonly #mtime: number;
  #at = 0;

  /** `mtime` is what all members get, in epoch milliseconds. */
  constructor(file: FileHandle, mtime: number) {
    this.#file = file;
    this.#mtime = mtime;
  }

  /** Writes `size` bytes as a member; returns their SHA-256. Throws if there are more or fewer of them. */
  async add(name: string, size: number, bytes: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<string> {
    const hash = createHash('sha256');
    await this.#write(headerOf(name, size, this.#mtime));
    let left = size;
    for await (const chunk of bytes) {
      left -= chunk.length;
      hash.update(chunk);
      await this.#write(chunk);
    }
    if (left !== 0) throw new Error(`${name} has ${size - left} bytes in place of ${size}`);
    await this.#write(Buffer.alloc(padding(size)));
    return hash.digest('hex');
  }

  /** Returns the size of the archive once it is on disk. */
  async finish(): Promise<number> {
    await this.#write(Buffer.alloc(2 * BLOCK));
    await this.#file.sync();
    return this.#at;
  }

  async #write(bytes: Buffer): Promise<void> {
    await this.#file.writeFile(bytes);
    this.#at += bytes.length;
  }
}

/** The members of an archive; null if it is none that was written to its end. */
export async function membersOf(file: FileHandle): Promise<Member[] | null> {
  const members: Member[] = [];
  const { size: whole } = await file.stat();
  for (let at = 0; at + 2 * BLOCK <= whole;) {
    const header = await bytesAt(file, at, BLOCK);
    if (header.every((byte) => byte === 0)) return members;
    const member = memberIn(header, at + BLOCK);
    if (member === null) return null;
    members.push(member);
    at = member.offset + member.size + padding(member.size);
  }
  return null;
}

/** The bytes of a member, some at a time. */
export async function* bytesOf(file: FileHandle, { offset, size }: Omit<Member, 'name'>): AsyncIterable<Buffer> {
  for (let at = 0; at < size; at += CHUNK) yield await bytesAt(file, offset + at, Math.min(CHUNK, size - at));
}

/** The bytes of a whole file, some at a time. */
export async function* bytesIn(path: string): AsyncIterable<Buffer> {
  await using file = await open(path);
  const { size } = await file.stat();
  yield* bytesOf(file, { offset: 0, size });
}

async function bytesAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

function headerOf(name: string, size: number, mtime: number): Buffer {
  const header = Buffer.alloc(BLOCK);
  header.write(name, 0);
  header.write('0000600\0', AT.mode);
  header.write('0000000\0', AT.uid);
  header.write('0000000\0', AT.gid);
  if (size < LARGEST_OCTAL) header.write(octal(size, SIZE_LENGTH), AT.size);
  else header.writeBigUInt64BE(BigInt(size), AT.size + SIZE_LENGTH - 8);
  if (size >= LARGEST_OCTAL) header[AT.size] = IS_BINARY;
  header.write(octal(Math.floor(mtime / 1_000), SIZE_LENGTH), AT.mtime);
  header.write('0', AT.kind);
  header.write('ustar\x0000', AT.magic);
  header.write(`${octal(sumOf(header), SUM_LENGTH - 1)} `, AT.sum);
  return header;
}

function octal(value: number, length: number): string {
  return `${value.toString(8).padStart(length - 1, '0')}\0`;
}

/** Of all bytes, with blanks in place of the sum itself. */
function sumOf(header: Buffer): number {
  return header.reduce((sum, byte, at) => sum + (at >= AT.sum && at < AT.sum + SUM_LENGTH ? 0x20 : byte), 0);
}

function memberIn(header: Buffer, offset: number): Member | null {
  if (header.length < BLOCK || header.toString('latin1', AT.magic, AT.magic + 5) !== 'ustar') return null;
  if (Number.parseInt(header.toString('latin1', AT.sum, AT.sum + SUM_LENGTH - 2), 8) !== sumOf(header)) return null;
  const name = header.toString('utf8', 0, AT.mode).replace(/\0.*$/s, '');
  const size =
    header[AT.size] === IS_BINARY
      ? Number(header.readBigUInt64BE(AT.size + SIZE_LENGTH - 8))
      : Number.parseInt(header.toString('latin1', AT.size, AT.size + SIZE_LENGTH - 1), 8);
  return Number.isSafeInteger(size) && size >= 0 ? { name, size, offset } : null;
}
