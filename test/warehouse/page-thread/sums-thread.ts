import { workerData } from 'node:worker_threads';
import { answerPages } from '../../../src/warehouse/page-thread/answer-pages.ts';

/** Adds up the bytes of a page; fails where there are none, and dies of a page of a single byte. */
answerPages<Uint8Array<ArrayBuffer>, { sum: number; bytes: Uint8Array<ArrayBuffer> }>((bytes) => {
  if (bytes.length === 0) throw Object.assign(new Error('no bytes'), { code: 'EMPTY' });
  if (bytes.length === 1) process.exit(3);
  return {
    answer: { sum: bytes.reduce((sum, byte) => sum + byte, Number(workerData)), bytes },
    transfer: [bytes.buffer],
  };
});
