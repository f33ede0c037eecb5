import { answerPages } from '../../page-thread/answer-pages.ts';
import type { BodyToShape, ShapedBody, ShapingPlan } from '../../page-shaper.ts';
import { CopyMemory, type CopyData } from '../connection/copy-data.ts';
import type { EncodedCopy } from './encode-page.ts';
import { shapeBody } from './shape-body.ts';

/** A body to shape, as it is sent to the thread. */
export interface ShapeRequest {
  /** Null: that of the request before. */
  plan: ShapingPlan | null;
  body: Omit<BodyToShape, 'bytes'>;
  bytes: ArrayBuffer;
  /** Memory to encode into that nobody uses any more. */
  spare: readonly ArrayBuffer[];
}

/** Rows as they come back. */
export interface SentCopy extends Pick<EncodedCopy, 'isBinary'>, Pick<CopyData, 'executions'> {
  memory: ArrayBuffer;
  /** Bytes of it that are messages. */
  length: number;
}

export interface ShapeAnswer {
  shaped: ShapedBody;
  /** By the place of their table in the shape. */
  rows: readonly (SentCopy & { table: number })[];
  versions: readonly SentCopy[];
}

const memory = new CopyMemory();
let plan: ShapingPlan | null = null;

answerPages<ShapeRequest, ShapeAnswer | null>((request) => {
  for (const spare of request.spare) memory.giveBack(Buffer.from(spare));
  plan = request.plan ?? plan;
  const answer = plan === null ? null : answerTo(plan, request);
  if (answer === null) return { answer };
  return { answer, transfer: [...answer.rows, ...answer.versions].map((copy) => copy.memory) };
});

function answerTo(by: ShapingPlan, { body, bytes }: ShapeRequest): ShapeAnswer | null {
  try {
    const made = shapeBody(memory, by, { ...body, bytes: Buffer.from(bytes) });
    if (made === null) return null;
    const { shaped, encoded } = made;
    const rows = encoded.rows.map(({ table, ...copy }) => ({ ...sent(copy), table: by.shape.tables.indexOf(table) }));
    return { shaped, rows, versions: encoded.versions.map(sent) };
  } catch {
    // Whoever reads the page in place of this thread says what is wrong with it.
    return null;
  }
}

function sent({ isBinary, data }: EncodedCopy): SentCopy {
  const { messages, executions, memory: whole } = data;
  if (!(whole.buffer instanceof ArrayBuffer)) throw new TypeError('memory that is shared');
  return { isBinary, executions, memory: whole.buffer, length: messages.length };
}
