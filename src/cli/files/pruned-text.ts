import { visibleText } from '../../model/visible-text.ts';
import { bytesText, countOf } from '../../observe/figures.ts';
import type { FilesPruned } from '../../sync/files/prune.ts';

/** What a pruning removed and kept, for a person. */
export function prunedText(
  source: string,
  { rows, objects, bytes, unfinished, kept }: FilesPruned,
  isDry: boolean,
): string {
  const removed = [
    `${countOf(objects, 'content')} (${bytesText(bytes)})`,
    countOf(rows, 'row of an earlier content', 'rows of earlier contents'),
    ...(unfinished === null ? [] : [countOf(unfinished, 'unfinished download')]),
  ];
  const recent = kept.recent_objects;
  const reasons: readonly (readonly [number, string])[] = [
    [
      kept.named.objects,
      `${countOf(kept.named.objects, 'content')} (${bytesText(kept.named.bytes)}): files show them, or did`,
    ],
    [kept.history, `${countOf(kept.history, 'earlier content')}: their resource has history: all`],
    [kept.recent_rows, `${countOf(kept.recent_rows, 'earlier content')}: shown until less than files.grace ago`],
    [
      recent.objects,
      `${countOf(recent.objects, 'content')} (${bytesText(recent.bytes)}) that nothing names: came less than files.grace ago`,
    ],
    [
      kept.unknown_rows,
      `${countOf(kept.unknown_rows, 'earlier content')}: of resources that the profile does not have`,
    ],
    [kept.stores.length, `all in ${kept.stores.join(', ')}: the settings no longer name it`],
  ];
  const lines = [
    `${source}: ${isDry ? 'would remove' : 'removed'} ${removed.join(', ')}`,
    ...reasons.filter(([count]) => count > 0).map(([, reason]) => `  kept ${reason}`),
  ];
  return lines.map(visibleText).join('\n');
}
