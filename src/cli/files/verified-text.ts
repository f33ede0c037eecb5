import { visibleText } from '../../model/visible-text.ts';
import { bytesText, countOf, countText } from '../../observe/figures.ts';
import { FILE_FAULTS, type FaultyFile, type FilesVerified } from '../../sync/files/verify-files.ts';

/** What a verification of files has found, for a person. */
export function verifiedText(source: string, verified: FilesVerified): string {
  const { mode, verdict, objects, files, bytes, faults, orphans, repaired } = verified;
  const said = verdict === 'equal' ? 'whole' : 'NOT WHOLE';
  const kinds = Object.entries(faults.by_kind).map(
    ([kind, count]) => `${countText(count)} × ${kind}: ${meaning(kind)}`,
  );
  const lines = [
    `${source}: ${said} (${mode}): ${countOf(objects, 'content')} of ${countOf(files, 'file')}, ${bytesText(bytes)}`,
    ...kinds.map((line) => `  ${line}`),
    ...faults.first.map((fault) => `    ${faultText(fault)}`),
    ...(orphans.objects === 0
      ? []
      : [
          `  ${countOf(orphans.objects, 'content')} that no file names, ${bytesText(orphans.bytes)}: content-sync files prune`,
        ]),
    ...(repaired === null ? adviceFor(verified) : repairedLines(repaired)),
  ];
  return lines.map(visibleText).join('\n');
}

function meaning(kind: string): string {
  return Object.entries(FILE_FAULTS).find(([name]) => name === kind)?.[1] ?? kind;
}

function faultText({ kind, store, sha256, files }: FaultyFile): string {
  const shown = files.map(({ resource, record_id, field, position, valid_to }) => {
    const where = position === 0 ? field : `${field} ${position}`;
    return `${resource} ${record_id} ${where}${valid_to === null ? '' : `, until ${valid_to.slice(0, 19)} UTC`}`;
  });
  return `${kind} ${sha256 ?? store}: ${shown.join('; ')}`;
}

function adviceFor({ faults }: FilesVerified): string[] {
  const { missing = 0, size = 0, content = 0 } = faults.by_kind;
  return missing + size + content === 0 ? [] : ['  → content-sync files verify --repair has them fetched again'];
}

function repairedLines({ again, left }: NonNullable<FilesVerified['repaired']>): string[] {
  return [
    ...(again === 0 ? [] : [`  ${countOf(again, 'file')} will be fetched again by the next run`]),
    ...(left === 0
      ? []
      : [
          `  ${countText(left)} left: only earlier contents show them, which cannot be fetched again, or nobody says where their store is`,
        ]),
  ];
}
