import { attentionOf, type Attention } from '../../serve/status/attention.ts';
import { headlineOf, type Headline } from '../../serve/status/headline.ts';
import type { StatusSnapshot } from '../../serve/status/snapshot.ts';
import { reloadButton } from './controls.ts';
import { icon } from './icon.ts';
import { markup, type Markup } from './markup.ts';
import { overviewTable, sourceMap } from './overview.ts';
import { USUAL_CHOICE } from './overview-choice.ts';
import { framed, sectionView, type PageView } from './page-frame.ts';
import { attentionList, groupFindings, refusedSection, sourceSection } from './source-section.ts';

/** So many sources are shown with all that is known of them; of more, each has a row, and a page of its own. */
const FEW_SOURCES = 6;
/** What needs attention of many sources at once stands in their rows. */
const MOST_FINDINGS = 8;

/** The status page as a whole HTML document: all that is known of a few sources, or a table of many. */
export function renderStatusPage(snapshot: StatusSnapshot, view: PageView, choice = USUAL_CHOICE): string {
  const found = attentionOf(snapshot);
  const headline = headlineOf(snapshot, found);
  const title = `${found.length === 0 ? '' : `(${found.length}) `}content-sync`;
  const count = snapshot.sources.length + snapshot.refused.length;
  const isFew = count <= FEW_SOURCES;
  const frame = { title, tone: headline.tone, path: '', trail: [], snapshot };
  const may = view.token !== null;
  const content = markup`${summary(headline)}
${shownFindings(found, count, isFew)}
${reloadButton(may)}
${isFew ? fewSources(snapshot, may) : [sourceMap(snapshot, found), overviewTable(snapshot, found, choice)]}`;
  return framed(frame, view, content);
}

/** How everything stands, in one line. */
export function summary({ tone, text }: Headline): Markup {
  const content = markup`${icon(tone)}<h2 id="headline">${text}</h2>`;
  return markup`<section class="summary ${tone}" aria-labelledby="headline">${content}</section>`;
}

function shownFindings(found: readonly Attention[], sources: number, isFew: boolean): Markup | null {
  if (found.length === 0) return null;
  const groups = groupFindings(found);
  const shown = (isFew ? groups : groups.slice(0, MOST_FINDINGS)).flat();
  const left = found.length - shown.length;
  const more =
    left === 0
      ? null
      : markup`<li class="more"><div>and ${left} more: each source's worst stands in the table below</div></li>`;
  return attentionList(shown, '', sources > 1, more);
}

function fewSources(snapshot: StatusSnapshot, may: boolean): Markup[] {
  const view = sectionView(snapshot, '', may);
  if (snapshot.sources.length + snapshot.refused.length === 0) {
    return [
      markup`<section class="source"><p class="empty">No source is kept. Put one under <code>sources</code> in the config, and have it read again: <code>content-sync reload</code>.</p></section>`,
    ];
  }
  return [...snapshot.sources.map((source) => sourceSection(source, view)), ...snapshot.refused.map(refusedSection)];
}
