import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { scriptFile } from '../../support/child-script.ts';
import { POSTGRES, preparedAddress, SQLITE, type TestDatabase } from '../../support/databases.ts';
import { IS_LONG, longOrShort } from '../../support/length.ts';
import { askForPages } from './rotating-pages.ts';
import { type Moment, MOMENTS, type RotatingService, serveRotating } from './rotating-service.ts';

const WORKER = new URL('rotating-worker.ts', import.meta.url);

interface Worker {
  kill: () => void;
  /** What it printed; null if it was killed. */
  said: Promise<string | null>;
}

function startWorker(address: string, { origin }: RotatingService, forMs = 0): Worker {
  const child = spawn(process.execPath, [scriptFile(WORKER), address, origin, String(forMs)]);
  const ended = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const said = ended.then(([[, signal], out, errors]) => {
    expect(errors).toBe('');
    return signal === 'SIGKILL' ? null : out.trim();
  });
  return { kill: () => child.kill('SIGKILL'), said };
}

const DATABASES = [SQLITE, POSTGRES].filter(({ missing }) => missing === null);
const ALARM = 'refresh_token_refused stop';

/** The states in which a refresh token may be after a crash, and what must come of each. */
interface Crash {
  grace: boolean;
  moment: Moment;
  /** Milliseconds between the moment and the kill. */
  after: number;
}

const CRASHES: Crash[] = [true, false].flatMap((grace) =>
  MOMENTS.flatMap((moment) =>
    (moment === 'answered' ? longOrShort([0, 1, 2, 4, 8, 16], [0]) : [0]).map((after) => ({ grace, moment, after })),
  ),
);

describe.each(DATABASES)('a refresh token that is replaced with each use, kept on $name', (database: TestDatabase) => {
  // On Postgres the same statements run: the short form has the moment at which most is lost.
  const crashes = CRASHES.filter(
    ({ grace, moment }) =>
      IS_LONG || (database.name === 'sqlite' ? !grace && moment !== 'asked' : grace && moment === 'issued'),
  );

  it.each(crashes)(
    'survives a kill: $moment + $after ms, grace $grace',
    async ({ grace, moment, after }) => {
      const service = await serveRotating({ grace });
      const address = await preparedAddress(database);
      const first = startWorker(address, service, 60_000);
      service.at = (now, nth) => {
        if (now !== moment || nth !== 1) return false;
        if (after === 0) first.kill();
        else setTimeout(first.kill, after);
        return true;
      };
      expect(await first.said).toBeNull();
      service.at = () => false;
      // The reservation of the dead process lasts half a minute.
      if (!IS_LONG) await database.write(address, 'UPDATE _sync_tokens SET asked_until = asked_until - 29500');
      // What begins after the kill need be no process of its own: it shares nothing with the one before but the warehouse.
      const next = await askForPages(address, service.origin);
      const { refused } = service.tokens();
      // A service that ends the old token before the new one has arrived leaves nobody a way: that is told once.
      const mayEnd = !grace && moment !== 'asked';
      expect([['pages 1', 0], ...(mayEnd ? [[ALARM, 1]] : [])]).toContainEqual([next, refused]);
      const { asked } = service.tokens();
      const later = await askForPages(address, service.origin);
      expect(later).toBe(next);
      // What is valid is used; what was refused is tried once by each process.
      expect(service.tokens()).toEqual({ asked: asked + refused, refused: 2 * refused });
    },
    60_000,
  );

  it('F227 is never asked with twice by processes that use it together, however short its tokens hold', async () => {
    const service = await serveRotating({ grace: false, lifetime: 1 });
    const address = await preparedAddress(database);
    const forMs = longOrShort(8_000, 1_300);
    const workers = Array.from({ length: longOrShort(4, 2) }, () => startWorker(address, service, forMs));
    const said = await Promise.all(workers.map((worker) => worker.said));
    for (const each of said) expect(each).toMatch(/^pages \d{2,}$/);
    const { asked, refused } = service.tokens();
    expect(refused).toBe(0);
    expect(asked).toBeGreaterThanOrEqual(forMs / 1_000);
    expect(service.refusedPages()).toBeLessThanOrEqual(asked * workers.length);
  }, 60_000);
});

describe('an answer with a new refresh token that is lost', () => {
  it.each([
    ['with grace the old one is asked with again', true, 'pages 1', 2, 0],
    ['without, that is reported by each process', false, ALARM, 3, 2],
  ] as const)(
    '%s',
    async (_, grace, said, asked, refused) => {
      const service = await serveRotating({ grace });
      service.at = (moment, nth) => moment === 'issued' && nth === 1;
      const address = await SQLITE.address();
      expect(await askForPages(address, service.origin)).toBe(said);
      expect(await askForPages(address, service.origin)).toBe(said);
      expect(service.tokens()).toEqual({ asked, refused });
    },
    60_000,
  );
});
