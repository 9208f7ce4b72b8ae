"""Sound and moving pictures."""

from __future__ import annotations

import struct
from fractions import Fraction

import av
import numpy as np
import pytest
import soundfile

import skate
from skate.data._io.read import file_options
from skate.data.sources.files import UnreadableFileError
from skate.data.sources.recordings import VideoSource

pytestmark = pytest.mark.usefixtures("engine")

RATE = 8000


def write_video(path, frames=20, rate=10, size=(16, 32)):
    """Each frame is grey, and lighter than the one before."""
    pictures = [np.full((*size, 3), number * 10, np.uint8) for number in range(frames)]
    write_pictures(path, pictures, rate=rate)


def write_pictures(path, pictures, codec="mpeg4", rate=25):
    with av.open(str(path), "w") as video:
        stream = video.add_stream(codec, rate=rate)
        stream.height, stream.width = pictures[0].shape[:2]
        for picture in pictures:
            video.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        video.mux(stream.encode())


def turned(path, matrix):
    """Let a video say how it is to be shown, by the matrix in the header of its track."""
    a, b, c, d = matrix
    content = bytearray(path.read_bytes())
    place = content.index(b"tkhd") + 44
    content[place : place + 36] = struct.pack(
        ">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30
    )
    path.write_bytes(content)


def tone(seconds, channels):
    times = np.arange(int(seconds * RATE)) / RATE
    return np.stack([np.sin(times * 440 * (one + 1)) for one in range(channels)], axis=1) / 2


class TestAudio:
    def test_a_row_is_a_recording(self, tmp_path):
        soundfile.write(tmp_path / "a.wav", tone(0.5, 1), RATE)
        soundfile.write(tmp_path / "b.flac", tone(0.25, 2), RATE)
        first, second = skate.data.read_audio(tmp_path).take_all()
        assert first["amplitude"].shape == (1, RATE // 2)
        assert second["amplitude"].shape == (2, RATE // 4)
        assert first["amplitude"].dtype == np.float32
        assert first["sample_rate"] == second["sample_rate"] == RATE
        np.testing.assert_allclose(second["amplitude"].T, tone(0.25, 2), atol=1e-3)

    def test_count_paths_and_other_files(self, tmp_path):
        soundfile.write(tmp_path / "a.ogg", tone(0.1, 1), RATE)
        (tmp_path / "notes.txt").write_text("about the sound")
        dataset = skate.data.read_audio(tmp_path, include_paths=True)
        assert dataset.count() == 1
        assert dataset.take(1)[0]["path"] == str(tmp_path / "a.ogg")

    @pytest.mark.engines("inline")
    def test_a_recording_longer_than_what_is_read_at_a_time(self, tmp_path, monkeypatch):
        monkeypatch.setattr("skate.data.sources.recordings._SAMPLES_AT_A_TIME", 1000)
        soundfile.write(tmp_path / "a.wav", tone(1, 2), RATE)
        row = skate.data.read_audio(tmp_path / "a.wav").take(1)[0]
        assert row["amplitude"].shape == (2, RATE)

    def test_what_is_no_recording_is_named(self, tmp_path):
        (tmp_path / "a.wav").write_bytes(b"no sound at all")
        with pytest.raises(UnreadableFileError, match=r"a\.wav as Audio"):
            skate.data.read_audio(tmp_path).take_all()

    def test_a_header_that_claims_a_year_takes_no_memory(self, tmp_path):
        path = tmp_path / "a.flac"
        soundfile.write(path, tone(0.1, 1), RATE)
        content = bytearray(path.read_bytes())
        content[21] |= 0x0F  # the number of samples has 36 bits, from the middle of byte 21 on
        content[22:26] = b"\xff" * 4
        path.write_bytes(content)
        assert soundfile.info(path).frames > 1 << 30
        with pytest.raises(UnreadableFileError, match=r"a\.flac as Audio"):
            skate.data.read_audio(path).take(1)


class TestVideos:
    def test_a_row_is_a_frame(self, tmp_path):
        write_video(tmp_path / "a.mp4")
        rows = skate.data.read_videos(tmp_path).take_all()
        assert [row["frame_index"] for row in rows] == list(range(20))
        assert list(rows[0]) == ["frame", "frame_index"]
        frames = np.stack([row["frame"] for row in rows])
        assert frames.shape == (20, 16, 32, 3)
        assert frames.dtype == np.uint8
        lightness = frames.mean(axis=(1, 2, 3))
        np.testing.assert_allclose(lightness, np.arange(20) * 10, atol=4)

    def test_timestamps(self, tmp_path):
        write_video(tmp_path / "a.mp4", frames=3, rate=4)
        rows = skate.data.read_videos(tmp_path, include_timestamps=True).take_all()
        times = np.stack([row["frame_timestamp"] for row in rows])
        np.testing.assert_allclose(times, [[0, 0.25], [0.25, 0.5], [0.5, 0.75]])

    @pytest.mark.parametrize(("fps", "kept"), [(5, 2), (10, 1), (3, 3), (100, 1)])
    def test_fewer_frames(self, tmp_path, fps, kept):
        write_video(tmp_path / "a.mp4")
        rows = skate.data.read_videos(tmp_path, fps=fps).take_all()
        assert [row["frame_index"] for row in rows] == list(range(0, 20, kept))

    def test_another_size(self, tmp_path):
        write_video(tmp_path / "a.mkv", frames=2)
        row = skate.data.read_videos(tmp_path, resize=(8, 24)).take(1)[0]
        assert row["frame"].shape == (8, 24, 3)

    @pytest.mark.parametrize(
        ("matrix", "shape", "corner"),
        [
            ((0, 1, -1, 0), (32, 16, 3), (0, -1)),
            ((-1, 0, 0, -1), (16, 32, 3), (-1, -1)),
            ((0, -1, 1, 0), (32, 16, 3), (-1, 0)),
        ],
    )
    def test_what_a_camera_recorded_on_its_side_is_upright(self, tmp_path, matrix, shape, corner):
        path = tmp_path / "a.mp4"
        picture = np.zeros((16, 32, 3), np.uint8)
        picture[:8, :16] = 255  # light at the top left
        write_pictures(path, [picture])
        turned(path, matrix)
        frame = skate.data.read_videos(path).take(1)[0]["frame"]
        assert frame.shape == shape
        corners = [(row, column) for row in (0, -1) for column in (0, -1)]
        assert max(corners, key=lambda place: frame[place].sum()) == corner
        smaller = skate.data.read_videos(path, resize=(8, 24)).take(1)[0]["frame"]
        assert smaller.shape == (8, 24, 3)

    def test_frames_of_one_file_have_one_size(self, tmp_path):
        small, large = tmp_path / "small.ts", tmp_path / "large.ts"
        write_pictures(small, [np.zeros((16, 32, 3), np.uint8)] * 5, "mpeg2video")
        write_pictures(large, [np.zeros((32, 48, 3), np.uint8)] * 5, "mpeg2video")
        (tmp_path / "both.ts").write_bytes(small.read_bytes() + large.read_bytes())
        batch = skate.data.read_videos(tmp_path / "both.ts").take_batch(100)
        assert len(batch["frame"]) > 5
        assert batch["frame"].shape[1:] == (16, 32, 3)

    @pytest.mark.engines("inline")
    def test_frames_come_in_blocks_of_bounded_size(self, tmp_path, monkeypatch):
        monkeypatch.setattr("skate.data.sources.recordings._BLOCK_BYTES", 5 * 16 * 32 * 3)
        write_video(tmp_path / "a.mp4", frames=12)
        files = file_options(tmp_path / "a.mp4", {})
        blocks = list(VideoSource(files).read_file(str(tmp_path / "a.mp4")))
        assert [block.num_rows for block in blocks] == [5, 5, 2]

    @pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
    def test_fps_that_cannot_be(self, tmp_path, wrong):
        with pytest.raises(ValueError, match="fps"):
            skate.data.read_videos(tmp_path, fps=wrong)

    @pytest.mark.parametrize("wrong", [(0, 1), (1,), (1, 2, 3), ("a", 1), 3, "ab"])
    def test_sizes_that_cannot_be(self, tmp_path, wrong):
        with pytest.raises(ValueError, match="resize"):
            skate.data.read_videos(tmp_path, resize=wrong)

    def test_what_is_no_video_is_named(self, tmp_path):
        (tmp_path / "a.mp4").write_bytes(b"no pictures at all" * 100)
        with pytest.raises(UnreadableFileError, match=r"a\.mp4 as Video: Invalid data"):
            skate.data.read_videos(tmp_path).take_all()

    def test_a_file_with_sound_only(self, tmp_path):
        soundfile.write(tmp_path / "a.wav", tone(0.1, 1), RATE)
        with pytest.raises(ValueError, match=r"no pictures; read_audio"):
            skate.data.read_videos(tmp_path, file_extensions=["wav"]).take_all()

    def test_a_list_of_other_files_opens_none_of_them(self, tmp_path, monkeypatch):
        write_video(tmp_path / "private.mkv")
        monkeypatch.chdir(tmp_path)  # FFmpeg takes names without a folder for safe
        (tmp_path / "a.mp4").write_text("ffconcat version 1.0\nfile private.mkv\n")
        with pytest.raises(UnreadableFileError, match=r"a\.mp4 as Video"):
            skate.data.read_videos("a.mp4").take_all()


def test_rates_that_are_no_whole_numbers(tmp_path):
    write_video(tmp_path / "a.mp4", rate=Fraction(30000, 1001))
    rows = skate.data.read_videos(tmp_path, fps=10).take_all()
    assert [row["frame_index"] for row in rows] == list(range(0, 20, 3))
