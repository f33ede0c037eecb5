import type { Cell } from '../../model/table.ts';

/** Postgres's text format of COPY: a line per row, cells between tabs, and a way to say what that leaves unclear. */
const NULL = '\\N';
const UNCLEAR = /[\\\n\r\t]/;
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const FIRST_BYTES = 65_536;
/** Bytes of UTF-8 per UTF-16 unit at most. */
const UNIT_BYTES = 3;

/** Lines of a COPY, collected as bytes at once: the texts of a page would all have to be kept until its end. */
export class CopyLines {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;

  /** Text that is escaped already. */
  addText(text: string): void {
    this.#grow(text.length * UNIT_BYTES);
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** A cell that comes as its UTF-8 bytes, which are not decoded for it. */
  addCell(bytes: Buffer): void {
    const text = bytes.toString('latin1');
    if (UNCLEAR.test(text)) this.#addBytes(Buffer.from(escaped(text), 'latin1'));
    else this.#addBytes(bytes);
  }

  /** All that was added. */
  data(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  #addBytes(bytes: Buffer): void {
    this.#grow(bytes.length);
    this.#length += bytes.copy(this.#bytes, this.#length);
  }

  #grow(by: number): void {
    const needed = this.#length + by;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

export function copyCell(cell: Cell | undefined): string {
  if (typeof cell === 'string') return UNCLEAR.test(cell) ? escaped(cell) : cell;
  if (cell === null || cell === undefined) return NULL;
  return Object.is(cell, -0) ? '-0' : String(cell);
}

/** Rows of so many cells each. */
export function copyRows(cells: readonly Cell[], width: number): Buffer {
  const lines = new CopyLines();
  for (let at = 0; at < cells.length; at += width) {
    let line = copyCell(cells[at]);
    for (let cell = 1; cell < width; cell += 1) line += `\t${copyCell(cells[at + cell])}`;
    lines.addText(`${line}\n`);
  }
  return lines.data();
}

function escaped(text: string): string {
  return text.replaceAll(/[\\\n\r\t]/g, (sign) => ESCAPES[sign] ?? sign);
}
