"""A visitor of the page of `geco app`, for tests in a real browser."""


class Visitor:
    """Somebody with a browser of their own; what goes wrong on the page is collected."""

    def __init__(self, chromium, address, *, width=1280, height=900):
        self.context = chromium.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        self.context.set_default_timeout(120_000)  # as long as it takes on a busy machine
        self.page = self.context.new_page()
        self.elsewhere, self.errors = [], []
        self.page.route("**/*", lambda route: self._local(route, address))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: self.errors.append(line.text) if self._is_ours(line) else None)
        self.page.goto(address)
        self.page.wait_for_selector("[data-example=face]")

    @staticmethod
    def _is_ours(line):
        return line.type == "error" and "status of 4" not in line.text  # refused uploads are answered with a 422

    def _local(self, route, address):
        if route.request.url.startswith((address, "blob:", "data:")):
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()

    def upload(self, path, slot):
        self.page.set_input_files(f".panel[data-slot='{slot}'] input[type=file]", path)
        self.page.wait_for_function(
            f"() => document.querySelector(`.panel[data-slot='{slot}'] .pixels`).complete"
            f" && document.querySelector(`.panel[data-slot='{slot}'] .pixels`).src"
        )

    def click(self, x, y, size=(256, 256)):
        """Click at a pixel of the source image and wait for the answer."""
        count = self.page.locator(".panel[data-slot='0'] .mark").count()
        stage = self.page.locator(".panel[data-slot='0'] .stage")
        stage.scroll_into_view_if_needed()
        box = stage.bounding_box()
        stage.click(position={"x": x * box["width"] / size[0], "y": y * box["height"] / size[1]})
        self.page.wait_for_function(
            f"() => document.querySelectorAll(`.panel[data-slot='0'] .mark`).length === {count + 1}"
        )

    def mark(self, slot, number):
        """Where a mark is drawn, as shares of the image's width and height."""
        place = f".panel[data-slot='{slot}']"
        mark = self.page.locator(f"{place} .mark.point[data-number='{number}']").bounding_box()
        box = self.page.locator(f"{place} .stage").bounding_box()
        x, y = mark["x"] + mark["width"] / 2 - box["x"], mark["y"] + mark["height"] / 2 - box["y"]
        return x / box["width"], y / box["height"]

    def verdict(self, slot=1):
        return self.page.locator(f".verdict[data-slot='{slot}']").inner_text()

    def example(self, name, slot=1):
        self.page.click(f"[data-example={name}]")
        self.page.wait_for_selector(f".panel[data-slot='{slot}'] .verdict:not(:empty)", state="attached")

    def quiet(self):
        self.page.wait_for_selector("html:not([data-geco-busy])", state="attached")
