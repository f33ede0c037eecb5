import { describe, expect, it } from 'vitest';
import { pageProfile } from './five-styles.ts';
import { startListing, type Responder } from './listing-server.ts';
import { collect, idsOf, walkOver } from './walking.ts';

/** The pages that were asked for so far, the one that is answered being the last of them. */
type Asked = readonly number[];

/** A letter is a record: `listAt` is the listing that a request finds. A page behind the last one is refused if it says so. */
function moving(listAt: (asked: Asked) => string, { isRefused = false, isTold = true } = {}): Responder {
  const asked: number[] = [];
  return (url) => {
    const page = Number(url.searchParams.get('page'));
    asked.push(page);
    const all = letters(listAt(asked));
    const data = all.slice((page - 1) * 2, page * 2).map((id) => ({ id }));
    if (isRefused && data.length === 0) return { status: 400, body: {} };
    return { body: isTold ? { data, total: all.length } : { data } };
  };
}

/** The records that a text stands for. */
const letters = (text: string): string[] => text.split('');

/** How often a page was asked for. */
const times = (asked: Asked, page: number): number => asked.filter((one) => one === page).length;

interface Story {
  list: (asked: Asked) => string;
  isRefused?: boolean;
  runAhead?: number;
  /** Records that were there all the time. */
  stayed: string;
  doubts?: string[];
}

async function walked({ list, isRefused = false, runAhead = 8 }: Story) {
  const server = await startListing(moving(list, { isRefused }));
  server.delay = 15;
  const page = pageProfile('page', 2, { total: 'total' });
  const { pages, error } = await collect(walkOver(server, page, { runAhead }));
  const doubts = pages.at(-1)?.end?.incompleteReasons.map(({ code }) => code);
  return { met: new Set(idsOf(pages)), error, doubts, requests: server.requests.length };
}

/** The page after the second one is answered before it. */
function answeredLate(asked: Asked): string {
  const isBefore = asked.at(-1) === 1 || (asked.at(-1) === 3 && times(asked, 3) === 1);
  return isBefore ? 'abcdefgh' : 'habcdefg';
}

function grownAgain(asked: Asked): string {
  if (times(asked, 3) > 1) return 'cdefghij';
  if (times(asked, 4) > 0) return 'cdefgh';
  return times(asked, 2) > 0 ? 'bcdefgh' : 'abcdefgh';
}

/** A replica that lags answers once, when the first page is read again; its total is one that nobody else told. */
function laggingOnce(asked: Asked): string {
  if (asked.length === 1) return 'abcdefghi';
  return asked.at(-1) === 1 && times(asked, 1) === 2 ? 'abcdefg' : 'bcdefghi';
}

/** As above, and it tells what the first answers told. */
function laggingAsBefore(asked: Asked): string {
  if (times(asked, 3) === 0) return 'abcdefghij';
  return asked.at(-1) === 2 && times(asked, 2) === 2 ? 'abcdefghij' : 'bcdefghij';
}

describe('a walk over numbered pages with a total that moves while it is read', () => {
  it.each<[string, Story]>([
    [
      'after a delete, records are pushed on before the page in front is read again',
      {
        list: (asked) => (times(asked, 1) > 1 ? 'kbcdefghi' : asked.length > 1 ? 'bcdefghij' : 'abcdefghij'),
        stayed: 'bcdefghi',
      },
    ],
    [
      'one that was deleted outweighs one that came onto the last page, behind which a request is refused',
      {
        list: (asked) => (times(asked, 4) > 0 ? 'cdefgh' : times(asked, 2) > 0 ? 'bcdefgh' : 'abcdefgh'),
        isRefused: true,
        runAhead: 0,
        stayed: 'cdefgh',
      },
    ],
    [
      'the page that is read again lies behind the end by then',
      {
        list: (asked) => (times(asked, 2) > 1 ? 'bc' : times(asked, 2) > 0 ? 'bcd' : 'abcd'),
        isRefused: true,
        runAhead: 0,
        stayed: 'bc',
      },
    ],
    [
      'a replica that lags answers when the page in front is read again',
      { list: laggingOnce, runAhead: 0, stayed: 'bcdefghi' },
    ],
    ['what a replica that lags answers looks as it did', { list: laggingAsBefore, runAhead: 0, stayed: 'bcdefghij' }],
  ])('misses nothing where %s', async (_, story) => {
    const { met, error, doubts } = await walked(story);
    expect(error).toBeNull();
    expect(letters(story.stayed).filter((id) => !met.has(id))).toEqual([]);
    expect(doubts).toEqual([]);
  });

  it('reads again what was fetched ahead of a page onto which records were pushed', async () => {
    const { met, doubts } = await walked({ list: answeredLate, stayed: 'abcdefg' });
    expect(letters('abcdefg').filter((id) => !met.has(id))).toEqual([]);
    expect(doubts).toContain('entered');
  });

  it('doubts that it met all where the listing grew again behind a page that was refused', async () => {
    const { doubts } = await walked({ list: grownAgain, isRefused: true, runAhead: 0, stayed: 'cdefgh' });
    expect(doubts).toContain('slipped');
  });
});

/** A record of the first page is deleted before the second one is asked for. */
const shrinking = (asked: Asked): string => (asked.length > 1 ? 'ac' : 'abc');

/** Pages of two, although three are asked for. */
describe('a walk over numbered pages without a total, of a service that cuts them as it likes', () => {
  it.for([
    ['empty', false],
    ['refused', true],
  ] as const)('finds what moved onto its only page, behind which it is %s', async ([, isRefused]) => {
    const server = await startListing(moving(shrinking, { isRefused, isTold: false }));
    const page = pageProfile('page', 3, isRefused ? { end: { status: [400] } } : {});
    const { pages, error } = await collect(walkOver(server, page, { runAhead: 0 }));
    expect([error, new Set(idsOf(pages))]).toEqual([null, new Set(['a', 'b', 'c'])]);
    expect(pages.at(-1)?.end?.incompleteReasons.map(({ code }) => code)).toContain('unwatched');
  });

  it('reads its only page twice where nothing moved, and doubts nothing', async () => {
    const server = await startListing(moving(() => 'ab', { isTold: false }));
    const { pages } = await collect(walkOver(server, pageProfile('page', 3), { runAhead: 0 }));
    expect([idsOf(pages), pages.at(-1)?.end?.incompleteReasons]).toEqual([['a', 'b'], []]);
    expect(server.requests).toHaveLength(3);
  });
});
