import { parentPort, type Transferable } from 'node:worker_threads';
import { messageOf } from '../../model/errors.ts';
import { excludeEnvironment } from '../../observe/exclude-environment.ts';
import { END, type Answered, type Asked } from './page-thread.ts';

/** An answer whose memory may be handed over. */
export interface Handed<Answer> {
  answer: Answer;
  transfer?: readonly Transferable[];
  /** What is left to do once it is sent, while nothing else is asked. Must not throw. */
  afterwards?: () => void;
}

/** The thread's side of a `PageThread`: answers what it is asked, in order, until it is told to end. */
// oxlint-disable-next-line no-unnecessary-type-parameters
export function answerPages<Request, Answer>(
  answer: (request: Request) => Handed<Answer>,
  end: () => void = () => undefined,
): void {
  const port = parentPort;
  if (port === null) throw new Error('this is a thread of content-sync, not a program');
  excludeEnvironment();
  port.on('message', (asked: Asked<Request> | typeof END) => {
    if (asked === END) {
      end();
      port.close();
      return;
    }
    const { id, request } = asked;
    let answered: Answered<Answer>;
    let transfer: readonly Transferable[] = [];
    try {
      const handed = answer(request);
      answered = { id, answer: handed.answer };
      transfer = handed.transfer ?? [];
      if (handed.afterwards !== undefined) setImmediate(handed.afterwards);
    } catch (error) {
      answered = { id, error: { message: messageOf(error), code: codeOf(error) } };
    }
    port.postMessage(answered, transfer);
  });
}

function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}
