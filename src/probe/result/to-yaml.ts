import { Document, isCollection, isMap, isNode, isPair, isScalar, type Node } from 'yaml';
import { snippet } from '../../http/body/safe-text.ts';
import type { Finding } from '../finding.ts';
import type { ProbeResult } from '../probe-service.ts';

/** Characters of evidence beside a line. */
const MOST_EVIDENCE = 220;

/** The profile as a file, with the evidence beside each line, and `not proved` where there is none. */
export function toYaml(
  result: Pick<ProbeResult, 'fields' | 'findings' | 'lost' | 'notes' | 'baseUrl' | 'requests'>,
): string {
  const document = new Document(result.fields);
  let before = '';
  for (const finding of result.findings) {
    const text = evidenceOf(finding);
    remark(document, finding, text === before ? (finding.proved ? 'likewise' : 'not proved, likewise') : text);
    before = text;
  }
  document.commentBefore = headOf(result);
  return document.toString({ lineWidth: 0, flowCollectionPadding: true });
}

function headOf({ baseUrl, requests, notes, lost }: Parameters<typeof toYaml>[0]): string {
  const losses = lost.map((finding) => {
    const value = snippet(JSON.stringify(finding.value), 80);
    return `not proved: ${finding.path.join('.')} would be ${value}, which a profile cannot say (${evidenceOf(finding)})`;
  });
  const lines = [`Found by content-sync probe at ${baseUrl} with ${requests} requests.`, ...notes, ...losses];
  return lines.map((line) => ` ${snippet(line, 400)}`).join('\n');
}

function evidenceOf({ proved, evidence }: Finding): string {
  const text = snippet(evidence, MOST_EVIDENCE);
  return proved ? text : `not proved: ${text}`;
}

/** Puts the text beside the line of the finding, or above what takes several lines. */
function remark(document: Document, { path }: Finding, text: string): void {
  const node: unknown = document.getIn(path, true);
  if (!isNode(node)) return;
  if (isScalar(node) || isEmptyOrShort(node)) {
    node.comment = ` ${text}`;
    return;
  }
  const parent: unknown = document.getIn(path.slice(0, -1), true);
  const pair = isMap(parent)
    ? parent.items.find((each) => isPair(each) && String(each.key) === path.at(-1))
    : undefined;
  if (pair !== undefined && isNode(pair.key)) pair.key.commentBefore = ` ${text}`;
}

/** Small maps and lists of plain values stand on one line. */
function isEmptyOrShort(node: Node): boolean {
  if (!isCollection(node)) return false;
  const isShort = JSON.stringify(node.toJSON()).length < 70;
  if (isShort) node.flow = true;
  return isShort;
}
