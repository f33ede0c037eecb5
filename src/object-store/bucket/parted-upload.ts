import type { BucketRequests } from './requests.ts';
import { orNull } from './requests.ts';

/** An object that is uploaded in parts of at least 5 MiB, but for the last. It is not there before `complete`. */
export interface PartedUpload {
  /** One after the other. */
  part(body: Uint8Array): Promise<void>;
  complete(): Promise<void>;
  /** Leaves nothing of it, as far as that can be done. Never throws. */
  abort(): Promise<void>;
}

export function uploadInParts(
  { ask, afterwards }: BucketRequests,
  object: { Bucket: string; Key: string },
  type: string | undefined,
): PartedUpload {
  let id: string | undefined;
  const etags: string[] = [];
  const begun = async (): Promise<string> => {
    const input = { ...object, ...(type === undefined ? {} : { ContentType: type }) };
    const { UploadId } = await ask(`POST ${object.Key}`, (s3, given) => s3.createMultipartUpload(input, given));
    if (UploadId === undefined) throw new TypeError('an upload without an id');
    return UploadId;
  };
  return {
    part: async (Body) => {
      id ??= await begun();
      const part = { ...object, UploadId: id, PartNumber: etags.length + 1, Body };
      const { ETag = '' } = await ask(`PUT ${object.Key}`, (s3, given) => s3.uploadPart(part, given));
      etags.push(ETag);
    },
    complete: async () => {
      const Parts = etags.map((ETag, at) => ({ ETag, PartNumber: at + 1 }));
      const input = { ...object, UploadId: id, MultipartUpload: { Parts } };
      await ask(`POST ${object.Key}`, (s3, given) => s3.completeMultipartUpload(input, given));
    },
    abort: async () => {
      if (id === undefined) return;
      const upload = { ...object, UploadId: id };
      const abandoned = afterwards(`DELETE ${object.Key}`, (s3, given) =>
        s3.abortMultipartUpload(upload, given).catch(orNull(404)),
      );
      await abandoned.catch(() => undefined);
    },
  };
}
