import { BulkThread } from '../../page-thread/bulk-thread.ts';
import type { PageThread } from '../../page-thread/page-thread.ts';
import type { BodyToShape, PageShaper, ShapedBody, ShapingPlan } from '../../page-shaper.ts';
import type { CopyMemory } from '../connection/copy-data.ts';
import { joinedPages, type EncodedCopy, type EncodedPage } from './encode-page.ts';
import type { SentCopy, ShapeAnswer, ShapeRequest } from './page-shaper-thread.ts';

type Shaper = PageThread<ShapeRequest, ShapeAnswer | null>;

/** Bodies that wait for the thread: where it has more than enough to do, this one does its part. */
const MOST_WAITING = 1;

/** Has bodies shaped in a thread of their own, while many large ones come. */
export interface ThreadedShaper extends PageShaper {
  /** What was made of these bodies, as one page; to be called once. */
  encoded(bodies: readonly ShapedBody[]): EncodedPage;
  /** Resolves once the thread has ended. */
  close(): Promise<void>;
}

/** `memory`: what was sent out of it goes back to the thread. */
export function threadedShaper(memory: CopyMemory): ThreadedShaper {
  const script = new URL('./page-shaper-thread.ts', import.meta.url);
  const bulk = new BulkThread<ShapeRequest, ShapeAnswer | null>({ script, data: null, name: 'page-shaper' });
  const plans = new WeakMap<Shaper, ShapingPlan>();
  const pages = new WeakMap<ShapedBody, EncodedPage>();

  function ask(thread: Shaper, plan: ShapingPlan, { bytes, ...body }: BodyToShape): Promise<ShapeAnswer | null> {
    const copy = new Uint8Array(bytes);
    const spare = memory.takeAll();
    const known = plans.get(thread) === plan ? null : plan;
    const answer = thread.ask({ plan: known, body, bytes: copy.buffer, spare }, [copy.buffer, ...spare]);
    // Only now the thread has it: what cannot be sent is thrown.
    plans.set(thread, plan);
    return answer;
  }

  return {
    shape: async (plan, body) => {
      const thread = bulk.borrow(body.borders.length / 2);
      if (thread === null) return null;
      try {
        if (thread.unanswered > MOST_WAITING) return null;
        const answer = await ask(thread, plan, body);
        if (answer === null) return null;
        pages.set(answer.shaped, received(answer, plan));
        return answer.shaped;
      } catch {
        // One that has died has left nothing undone that cannot be done here.
        return null;
      } finally {
        bulk.release();
      }
    },
    encoded: (bodies) =>
      joinedPages(
        memory,
        bodies.map((body) => {
          const page = pages.get(body);
          if (page === undefined) throw new Error('a body that was not shaped here');
          pages.delete(body);
          return page;
        }),
      ),
    close: () => bulk.close(),
  };
}

function received({ rows, versions }: ShapeAnswer, { shape }: ShapingPlan): EncodedPage {
  return {
    rows: rows.flatMap(({ table: at, ...copy }) => {
      const table = shape.tables[at];
      return table === undefined ? [] : [{ ...receivedCopy(copy), table }];
    }),
    versions: versions.map(receivedCopy),
  };
}

function receivedCopy({ isBinary, executions, memory, length }: SentCopy): EncodedCopy {
  const whole = Buffer.from(memory);
  return { isBinary, data: { messages: whole.subarray(0, length), executions, memory: whole } };
}
