import type { CompiledQuery } from 'kysely';
import type { WalkEnd } from '../../extract/guards/walk-end.ts';
import type { Page } from '../../extract/page.ts';
import type { PageFacts, PageLoader, PageOutcome } from '../../load/page-loader.ts';
import { updatedZone } from '../../shape/columns/updated-time.ts';
import { saveCheckpoint } from '../../state/checkpoints.ts';
import { saveFigures } from '../../state/runs.ts';
import type { SentTurn } from '../../state/turns.ts';
import type { CheckpointRow } from '../../warehouse/own-tables.ts';
import { checkpointAfter } from '../cursor/move-cursor.ts';
import { suspectStatements, type WalkSuspects } from '../deletes/page-suspects.ts';
import { goOnAfterWalk, walkedCursor } from '../feed/feed-place.ts';
import { proveWalk, type WalkProof } from '../prove-walk.ts';
import { countPage, withPage, type RunContext } from '../run-progress.ts';
import { addPage } from './filter-evidence.ts';
import type { JoinedPage } from './joined-page.ts';
import type { OneWalk } from './load-pages.ts';
import { seenStatements, type CommittedPage } from './seen-statements.ts';
import { storedPosition } from './stored-position.ts';

/** The end of a walk, and what it proves. */
export interface EndedWalk {
  end: WalkEnd;
  proof: WalkProof;
  /** The checkpoint that it would have if it had seen every record. */
  ifProved: CheckpointRow;
}

/** The walk whose pages are sent. */
type SentWalk = Pick<OneWalk, 'former' | 'evidence' | 'onKeys' | 'isCatchUp'>;

/** Sends the pages of one walk to the warehouse, each with the checkpoint that says so. */
interface PageSender {
  /** Behind the latest page that was sent. */
  readonly checkpoint: CheckpointRow;
  /** Null before the last page. */
  readonly ended: EndedWalk | null;
  /** To be called once the page before is sent: it may be unanswered. The memory of the page is given back. */
  write(page: JoinedPage): SentTurn<void>;
}

/** A short listing gains nothing from pages that are sent behind each other, and a stop among them ends just there. */
const PAGES_ALONE = 3;

export function pageSender(
  context: RunContext,
  walk: SentWalk,
  { loader, suspects, start }: { loader: PageLoader; suspects: WalkSuspects; start: CheckpointRow },
): PageSender {
  const { warehouse, owned, progress, watcher, signal } = context;
  let checkpoint = start;
  let ended: EndedWalk | null = null;
  const unanswered = new Map<JoinedPage, PageOutcome>();
  let pages = 0;

  function statementsOf(page: JoinedPage) {
    const before = checkpoint;
    const endedHere = page.end === null ? null : endedBy(context, page, page.end, walk);
    return (facts: PageFacts, counted: PageOutcome): CompiledQuery[] => {
      addPage(walk.evidence, facts, page.parts.length);
      walk.onKeys?.(page.keys);
      const committed = { page, facts, counted, before, proof: endedHere?.proof ?? null };
      const commit = commitOf(context, suspects, committed, unanswered);
      checkpoint = commit.next;
      ended = endedHere && { ...endedHere, ifProved: commit.ifProved };
      unanswered.set(page, counted);
      return commit.statements;
    };
  }

  async function counted(page: JoinedPage, answered: Promise<PageOutcome>): Promise<void> {
    try {
      const outcome = await answered;
      unanswered.delete(page);
      countPage(progress, outcome, page.parts.length);
      watcher.page(owned.resource, page, progress.figures);
      signal.throwIfAborted();
      page.discard();
    } finally {
      page.release();
    }
  }

  return {
    get checkpoint() {
      return checkpoint;
    },
    get ended() {
      return ended;
    },
    write: (page) => {
      pages += 1;
      // What the end proves rests on all pages before it.
      const isAlone = page.end !== null || pages <= PAGES_ALONE || !warehouse.commitsOverlap;
      const turn = isAlone
        ? { sent: null, answered: loader.load(page, statementsOf(page)) }
        : loader.send(page, statementsOf(page));
      const answered = counted(page, turn.answered);
      // An error of it is thrown at the next page, or at the end.
      answered.catch(() => undefined);
      return { sent: turn.sent ?? answered, answered };
    },
  };
}

/** A page that names where the changes go on is the last one by that. */
export function endedBy(
  context: RunContext,
  page: Page,
  end: WalkEnd,
  { former, isCatchUp = false }: Pick<SentWalk, 'former' | 'isCatchUp'>,
): Pick<EndedWalk, 'end' | 'proof'> {
  const isNamed = walkedCursor(context, page) !== null;
  const shown = isNamed ? { ...end, doubts: end.doubts.filter(({ code }) => code !== 'unproved') } : end;
  const proof = proveWalk(shown, context.profile, former);
  return { end: shown, proof: isCatchUp ? { ...proof, isProved: false } : proof };
}

/** The checkpoint after a page, and the statements that belong to the page's transaction. */
function commitOf(
  context: RunContext,
  suspects: WalkSuspects,
  committed: CommittedPage,
  unanswered: ReadonlyMap<JoinedPage, PageOutcome>,
): Pick<EndedWalk, 'ifProved'> & { next: CheckpointRow; statements: CompiledQuery[] } {
  const { warehouse, profile, scrub, clock, run, progress } = context;
  const { page, facts, counted, before, proof } = committed;
  const isProved = proof?.isProved ?? false;
  const { total, kept, again, serverDate, parts } = page;
  const zone = updatedZone(profile);
  const passed = {
    ...facts,
    next: page.next,
    serverDate,
    total,
    kept,
    again,
    isProved,
    zone,
    pages: parts.length,
  };
  const after = checkpointAfter(before, passed, clock.now());
  const next = { ...after, walk_position: storedPosition(after.walk_position, profile.query, scrub) };
  const sent = [...unanswered, [page, counted] as const];
  const figures = sent.reduce(
    (sum, [one, outcome]) => withPage(sum, outcome, progress.meter, one.parts.length),
    progress.figures,
  );
  const statements = [
    ...suspectStatements(context, suspects, facts, page.requestedAt),
    saveCheckpoint(warehouse.own, next),
    saveFigures(warehouse.own, run, figures),
    ...seenStatements(context, committed, next),
    ...(isProved && before.walk_mode === 'full' ? goOnAfterWalk(context, walkedCursor(context, page)) : []),
  ];
  return { next, statements, ifProved: checkpointAfter(before, { ...passed, isProved: true }, clock.now()) };
}
